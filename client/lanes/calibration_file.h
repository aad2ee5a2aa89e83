// A device's calibration in a file: read when a worker's lanes are opened, written when they
// have measured the device because there was none, and again when they close, for the next
// process on the same device and driver.
#ifndef KVTIER_CLIENT_LANES_CALIBRATION_FILE_H_
#define KVTIER_CLIENT_LANES_CALIBRATION_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tier_gpu/plan/calibration.h"
#include "tier_gpu/plan/calibration_text.h"

namespace kvtier {

// Errors: kNotFound, there is none; kUnavailable, it cannot be read; as ParseCalibration().
absl::StatusOr<CalibrationTable> ReadCalibration(const std::string& path,
                                                 const CalibratedDevice& device,
                                                 const LinkModel& link);
// Whole or not at all. Errors: kUnavailable, naming the path.
absl::Status WriteCalibration(const std::string& path, const Calibration& calibration);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_CALIBRATION_FILE_H_
