// The text form of a calibration, written once per device and driver and read by the
// next process: a line for the form's version, one for whose it is, one for each cell
// that was measured, and one that says how many they are.
//
//   kvtier-measured-paths 1
//   gpu GPU-5d8c... driver 580.159.04
//   h2d 1024 1 batch 2441
//   ...
//   cells 630
//
// A cell is its direction, bytes of a segment, segments, path, and nanoseconds of the
// job. Pure: whoever calls has the file.
#ifndef KVTIER_TIER_GPU_PLAN_CALIBRATION_TEXT_H_
#define KVTIER_TIER_GPU_PLAN_CALIBRATION_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tier_gpu/plan/calibration.h"

namespace kvtier {

// Whose times they are; another driver is another device. 1..128 printable characters
// other than blanks each.
struct CalibratedDevice {
  std::string gpu{};     // Its UUID.
  std::string driver{};  // Its version.
  bool operator==(const CalibratedDevice&) const = default;
};

struct Calibration {
  CalibratedDevice device{};
  CalibrationTable table;
};

// The same table is the same text; times are rounded to whole nanoseconds.
// REQUIRES: the device's words are as said above.
std::string FormatCalibration(const Calibration& calibration);

// `link` predicts what was not measured. Errors: kInvalidArgument, its times are zero, or
// naming the line and what stands there: not this form, a word or number
// that is none, a cell that is unknown or there twice, more or fewer cells than it says;
// kFailedPrecondition, it is of another device or driver (calibrate anew).
absl::StatusOr<CalibrationTable> ParseCalibration(absl::string_view text,
                                                  const CalibratedDevice& device,
                                                  const LinkModel& link);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_CALIBRATION_TEXT_H_
