// CalibrationSamples calibrates a table with the copies that are made anyway: what a batch
// took counts for the cell of the table that is nearest to it, in proportion to what the
// table says of the two. So only the paths that are taken are measured; the others keep
// what was predicted or measured of them before.
//
// Pure: times come in. Not thread-safe.
#ifndef KVTIER_TIER_GPU_PLAN_CALIBRATION_SAMPLES_H_
#define KVTIER_TIER_GPU_PLAN_CALIBRATION_SAMPLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/plan/calibration.h"

namespace kvtier {

class CalibrationSamples {
 public:
  // The table is not owned.
  explicit CalibrationSamples(CalibrationTable* table) : table_(table) {}

  // One batch that had the link to itself. Left out: segments of more than one size, or
  // more than twice from any cell's size; a time that is not positive.
  void Add(CopyDirection direction, CopyPath path, std::span<const CopySegment> segments,
           absl::Duration took);

  // Cells that had enough samples, each time they had.
  uint64_t calibrated() const { return calibrated_; }

 private:
  using Samples = std::vector<absl::Duration>;  // Up to kMinCalibrationSamples.
  using Counts = std::array<Samples, kCalibrationCounts.size()>;
  using Sizes = std::array<Counts, kCalibrationSizes.size()>;

  CalibrationTable* const table_;
  std::array<std::array<Sizes, kCopyPaths>, kCopyDirections> samples_;
  uint64_t calibrated_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_CALIBRATION_SAMPLES_H_
