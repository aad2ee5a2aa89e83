// GpuOffloader empties the GPU pool ahead of need, so that who asks for a slot finds one
// that no step of a worker may still read. A commit out of the pool copies the block to
// host memory before it is one, so what leaves here needs no copy: it is a block that
// host memory or a disk has, too, the one least likely to be used soon first (ReuseLeaves),
// and never before its children.
//
// Executor thread only. Decides; the evictor acts.
#ifndef KVTIER_AGENT_GPU_OFFLOAD_H_
#define KVTIER_AGENT_GPU_OFFLOAD_H_

#include <cstddef>
#include <cstdint>

#include "agent/agent_stats.h"
#include "agent/evict.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

// The watermarks, as what is to spare: one slot of so many. Fewer are free or draining
// than the first says: blocks leave until as many are as the second says. A pool of less
// than 32 slots has none to spare.
inline constexpr size_t kGpuHighWatermarkSpare = 32;
inline constexpr size_t kGpuLowWatermarkSpare = 16;
// Of one look, so that it takes microseconds.
inline constexpr size_t kMaxEvictedAhead = 64;

class GpuOffloader {
 public:
  // Does not own.
  GpuOffloader(Evictor* evictor, const GpuPool* pool, AgentStats* stats)
      : evictor_(evictor), pool_(pool), stats_(stats) {}

  // After slots were taken.
  void Pump();

 private:
  size_t spare() const { return pool_->table().free_slots() + pool_->table().draining_slots(); }

  Evictor* const evictor_;
  const GpuPool* const pool_;
  AgentStats* const stats_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_OFFLOAD_H_
