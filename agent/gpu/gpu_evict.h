// GpuEvictor makes room in one GPU pool: it takes a free slot, or drops blocks that nobody holds so
// that one is free. It never waits, and drops nothing where that would make no room.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_EVICT_H_
#define KVTIER_AGENT_GPU_GPU_EVICT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "agent/index/gpu_blocks.h"
#include "core/block_key.h"
#include "core/tier_stats.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/step_words.h"

namespace kvtier {

class GpuEvictor {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    GpuPool* pool = nullptr;
    GpuBlocks* blocks = nullptr;
    StepWords* words = nullptr;
    TierStats* stats = nullptr;
  };
  explicit GpuEvictor(const Parts& parts) : parts_(parts) {}

  // Takes a free slot, and first drops blocks if none is free. Errors: kResourceExhausted, every
  // slot is held, or steps of workers may still read the slots of the dropped blocks.
  absl::StatusOr<GpuSlot> Reserve();
  // Drops, of the blocks that host memory or a disk has, too, the one whose slot is worth the
  // least. Returns false if there is none among the cheapest blocks.
  bool EvictCopy();
  // Drops the blocks in slots from `first` on that nobody holds, `limit` at most; returns how many.
  size_t EvictFrom(uint32_t first, size_t limit);
  // Drops the cheapest `limit` of the blocks that nobody holds; returns how many.
  uint64_t EvictSome(uint64_t limit);
  // REQUIRES: the block is in the pool, and nobody has pinned it there.
  void Drop(const BlockKey& key);

 private:
  bool EvictOne();

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_EVICT_H_
