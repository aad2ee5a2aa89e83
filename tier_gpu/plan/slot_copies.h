// PlanSlotCopies() says which segments move whole blocks between slots of the agent's own pool,
// where a block is one run, and host memory. Pure.
#ifndef KVTIER_TIER_GPU_PLAN_SLOT_COPIES_H_
#define KVTIER_TIER_GPU_PLAN_SLOT_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tier_gpu/device/copy.h"

namespace kvtier {

struct SlotCopy {
  uint64_t device_offset = 0;
  std::span<std::byte> host;
};

// Borders that a copy engine may not cross: host memory is pinned in chunks from `base` on.
struct PinnedChunks {
  std::byte* base = nullptr;  // Address at or below every host address.
  uint64_t chunk_bytes = 0;   // Size of a chunk; 0: the memory is pinned in one piece.
};

// Returns batches for one lane, in their order, of up to kMaxCopySegments segments and
// kMaxCopyBytes, or of one segment that is longer. Blocks that are adjacent on both sides are
// merged into segments of up to kMaxCopyBytes. No segment crosses the border between two chunks, or
// between two handles of `handle_bytes`.
std::vector<std::vector<CopySegment>> PlanSlotCopies(std::span<const SlotCopy> blocks,
                                                     const PinnedChunks& chunks,
                                                     uint64_t handle_bytes);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_SLOT_COPIES_H_
