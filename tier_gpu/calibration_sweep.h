// SweepCalibration measures an idle device for a CalibrationTable: each cell whose job is
// not longer than a bound, on every path that the device was opened with. It is for once
// per device; from there on the copies of the day (CalibrationSamples) correct the table.
//
// A cell's job is cut into batches as the planner does it, which are submitted one behind
// the other. Its time is the sum of what they took on the device: what runs while the
// batch before is on the link counts once, and what the host takes to notice not at all.
// Segments lie side by side in host memory and apart on the device, as blocks in pages
// do, so that nothing joins them.
#ifndef KVTIER_TIER_GPU_CALIBRATION_SWEEP_H_
#define KVTIER_TIER_GPU_CALIBRATION_SWEEP_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/plan/calibration.h"

namespace kvtier {

// Eight full batches. Longer jobs repeat them, as the table knows. All cells of this size
// on three paths are 67 GB: 3 s on PCIe 5.0, 4.4 s on 4.0, by the link model.
inline constexpr uint64_t kMaxSweepJobBytes = uint64_t{32} << 20;

struct CalibrationSweepOptions {
  // Of the longest job that is measured; kCalibrationSizes.front() or more. So much host
  // memory is pinned meanwhile, and twice as much taken of the device.
  uint64_t max_job_bytes = kMaxSweepJobBytes;
  // Of one job, which takes milliseconds where nothing else runs.
  absl::Duration job_timeout = absl::Seconds(10);
};

// Returns how many cells were measured, with kMinCalibrationSamples jobs each. Keeps the
// calling thread busy all the while. REQUIRES: nothing else is submitted to the lanes of
// copies. What ends on the compute lane is polled and dropped.
//
// Errors; the table is as before, and the memory given back: kInvalidArgument, the bound,
// or as CalibrationTable::Calibrate(); kResourceExhausted, no memory, saying how much of
// which was asked, or the lanes are full of what nobody polled; kUnavailable, the device
// is lost, or a copy failed; kDeadlineExceeded, a job did not end in time: then the memory
// that it uses stays until the process ends.
absl::StatusOr<size_t> SweepCalibration(Device* device, const CalibrationSweepOptions& options,
                                        CalibrationTable* table);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_CALIBRATION_SWEEP_H_
