// PlanStaging decides how a batch goes through buffers on the device: a kernel moves
// pieces between the region and a buffer, the copy engine moves runs of contiguous host
// memory, each as one. It cuts the batch into portions of one buffer each, so that kernel
// and copy engine work at the same time.
#ifndef KVTIER_TIER_GPU_DEVICE_STAGING_PLAN_H_
#define KVTIER_TIER_GPU_DEVICE_STAGING_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// What the kernel moves: bytes of the region, and where they lie in the buffer.
struct StagedPiece {
  uint64_t device_offset = 0;
  uint64_t buffer_offset = 0;
  uint64_t bytes = 0;
};

// What the copy engine moves.
struct StagedRun {
  std::byte* host = nullptr;
  uint64_t buffer_offset = 0;
  uint64_t bytes = 0;
};

struct StagedPortion {
  std::vector<StagedPiece> pieces;
  std::vector<StagedRun> runs;
};

inline constexpr uint64_t kStagingBufferBytes = uint64_t{8} << 20;
// A batch of kMaxCopyBytes is four of these: the first is on the link while the second
// is gathered.
inline constexpr uint64_t kMinPortionBytes = uint64_t{1} << 20;
// Of one portion: they may be a call, and an entry of a stream, each.
inline constexpr size_t kMaxPortionRuns = 128;
// Of one batch: 1 GiB in whole buffers.
inline constexpr size_t kMaxPortions = 128;
// Every cut makes one piece more.
inline constexpr size_t kMaxStagedPieces = kMaxCopySegments + kMaxPortions;

// Every byte of the segments is in one piece and one run, at the same place of the same
// buffer. `joins` says whether one run may go on past this byte of host memory: there is
// a border between two registrations, or none.
// REQUIRES: as CheckSegments(). Errors: kInvalidArgument, more than kMaxPortions.
absl::StatusOr<std::vector<StagedPortion>> PlanStaging(
    std::span<const CopySegment> segments, absl::FunctionRef<bool(const std::byte* border)> joins);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_STAGING_PLAN_H_
