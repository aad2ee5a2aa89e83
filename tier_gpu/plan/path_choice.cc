#include "tier_gpu/plan/path_choice.h"

#include <algorithm>
#include <array>

namespace kvtier {
namespace {

// A job takes the staged path when it has at least `segments` of at most `segment_bytes` each.
struct Threshold {
  CopyDirection direction;
  size_t segments;
  uint64_t segment_bytes;
};

constexpr uint64_t kKiB = 1024;

constexpr std::array<Threshold, 4> kThresholds = {{
    // Host to device, below 28 KiB the copy engine falls to 4 to 7 GB/s, and a kernel is ahead from
    // 16 segments (H100, vLLM #42212). An A30 without that cliff crosses between 32 and 64 at 8 KiB
    // (vLLM #57555).
    {CopyDirection::kHostToDevice, 16, 28 * kKiB - 1},
    // At 28 KiB the copy engine wins with 64 segments and a kernel with 256 (H100), or a kernel
    // from
    // 64 to 128 (A30; both vLLM #57555). Up to 64 KiB a descriptor costs as much as the link needs
    // for a third of the segment: 0.54 us in batches of 10^4 (H100, fit of vLLM #42212).
    {CopyDirection::kHostToDevice, 128, 64 * kKiB},
    // Device to host nobody reports a cliff. What a kernel saves is the descriptors' 0.54 us each,
    // which pay for its launch of 25 us from some 50 segments of 8 KiB.
    {CopyDirection::kDeviceToHost, 64, 28 * kKiB - 1},
    {CopyDirection::kDeviceToHost, 128, 64 * kKiB},
}};

}  // namespace

CopyPath ChoosePath(const CopyJob& job, LanePaths paths) {
  if (paths == LanePaths::kEngine) return CopyPath::kBatch;
  const bool staged = std::ranges::any_of(kThresholds, [&job](const Threshold& threshold) {
    return job.direction == threshold.direction && job.segments >= threshold.segments &&
           job.segment_bytes <= threshold.segment_bytes;
  });
  return staged ? CopyPath::kStaged : CopyPath::kBatch;
}

}  // namespace kvtier
