// Evictor makes room: it takes a free slot, or drops blocks that nobody holds so that one
// is free. It never waits, and drops nothing where that would make no room.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_EVICT_H_
#define KVTIER_AGENT_INDEX_EVICT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "agent/gpu/gpu_workers.h"
#include "agent/index/block_index.h"
#include "agent/index/evicted_keys.h"
#include "core/block_lengths.h"
#include "core/tier.h"
#include "core/tier_stats.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class Evictor {
 public:
  // Does not own; `stats` has one entry a tier.
  Evictor(BlockIndex* index, HostTier* host, TierStats* host_stats, TierStats* gpu_stats)
      : index_(index), host_(host), host_stats_(host_stats), gpu_stats_(gpu_stats) {}

  // Returns the room that a block of a space with such lengths gets in the domain.
  BlockRoom RoomFor(DomainId domain, const BlockLengths& lengths, uint64_t length) const {
    return host_->RoomFor(domain, lengths, length);
  }
  // Drops one block of the same size of slots for it, or the blocks of one slab (HostOrder).
  // Errors: kResourceExhausted, neither can be: what the domain has is pinned, leased or being
  // written; kInvalidArgument, larger than a slab.
  absl::StatusOr<HostSlot> ReserveHost(DomainId domain, const BlockRoom& room);
  // The same of a space whose blocks are all of one length.
  absl::StatusOr<HostSlot> ReserveHost(DomainId domain, uint64_t block_bytes) {
    return ReserveHost(domain, ExactRoom(block_bytes));
  }
  // From here on ReserveGpu() may be called. Does not own.
  void AttachGpu(GpuPool* pool, GpuWorkers* workers) {
    gpu_ = pool;
    gpu_workers_ = workers;
  }
  // Errors: kResourceExhausted, every slot is held, or what was given up may still be
  // read by steps of workers.
  absl::StatusOr<GpuSlot> ReserveGpu();
  // Drops the block of the pool whose slot is worth the least of those that host memory or a
  // disk has, too. False: there is none among the cheapest.
  bool EvictGpuCopy();
  // REQUIRES: the block is in the pool, and nobody has pinned it there.
  void DropFromGpu(const BlockKey& key);
  // Drops the blocks of the pool in slots from `first` on that nobody holds, `limit` at
  // most; returns how many.
  size_t EvictGpuFrom(uint32_t first, size_t limit);
  // Drops every block of kHost or kGpu that nobody holds; returns how many.
  uint64_t EvictAll(Tier tier);
  // The same with the host blocks of one domain.
  uint64_t EvictDomain(DomainId domain);
  // REQUIRES: the block is in host memory, and nobody has pinned it there.
  void DropFromHost(const BlockKey& key);
  // The block left host memory to make room, lately, and no tier of this node had it then.
  bool WasEvicted(const BlockKey& key) const { return evicted_.Contains(key); }

 private:
  void EvictFromHost(const BlockKey& key);
  bool EvictOneGpu();

  BlockIndex* const index_;
  HostTier* const host_;
  TierStats* const host_stats_;
  TierStats* const gpu_stats_;
  EvictedKeys evicted_;
  GpuPool* gpu_ = nullptr;  // nullptr: no device.
  GpuWorkers* gpu_workers_ = nullptr;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_EVICT_H_
