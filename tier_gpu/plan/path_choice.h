// ChoosePath() says by which path the segments of a job go, from a table of thresholds: the copy
// engine pays for each segment, a kernel pays once to be launched, so many short segments are
// gathered or scattered by a kernel and move as one copy.
//
// The thresholds follow figures that others published for H100 and A30, named beside each row in
// path_choice.cc. No GPU has measured them for our kernels yet. Pure.
#ifndef KVTIER_TIER_GPU_PLAN_PATH_CHOICE_H_
#define KVTIER_TIER_GPU_PLAN_PATH_CHOICE_H_

#include <cstddef>
#include <cstdint>

#include "tier_gpu/device/copy.h"

namespace kvtier {

// Which paths a lane may take. kEngine: kBatch alone. That is an agent's lane, whose kernels would
// take turns with the worker's, and the lane of a device that was opened without kernels.
enum class LanePaths : uint8_t { kEngine, kAll };

// Segments of one size that go in one direction.
struct CopyJob {
  CopyDirection direction = CopyDirection::kHostToDevice;
  uint64_t segment_bytes = 0;
  size_t segments = 0;  // Of the whole job, in all its batches.
};

CopyPath ChoosePath(const CopyJob& job, LanePaths paths);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_PATH_CHOICE_H_
