// Evictor makes room in host memory: it takes a free slot, or drops blocks that nobody holds so
// that one is free. That never waits, and drops nothing where that would make no room.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_EVICT_H_
#define KVTIER_AGENT_INDEX_EVICT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "agent/index/block_index.h"
#include "agent/index/evicted_keys.h"
#include "agent/index/eviction_ledger.h"
#include "core/block_lengths.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/tier_stats.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class Evictor {
 public:
  // Does not own.
  Evictor(BlockIndex* index, HostTier* host, TierStats* stats)
      : index_(index), host_(host), stats_(stats) {}

  // Returns the room that a block of a space with such lengths gets in the domain.
  BlockRoom RoomFor(DomainId domain, const BlockLengths& lengths, uint64_t length) const {
    return host_->RoomFor(domain, lengths, length);
  }
  // Takes a free slot. If none is free, first drops one block in slots of the same size, or all
  // blocks of one slab (HostOrder). Errors: kResourceExhausted, no slot can be freed: the domain's
  // blocks are pinned, leased or being written; kInvalidArgument, larger than a slab.
  absl::StatusOr<HostSlot> ReserveHost(DomainId domain, const BlockRoom& room);
  // Reserves a slot, as ReserveHost() does, for a block that a worker wants to put and that no disk
  // would be given. Errors also: kFailedPrecondition, in the learnt order, if the block is worth
  // less than all blocks that are here.
  absl::StatusOr<HostSlot> ReserveHostFor(DomainId domain, const BlockRoom& room,
                                          const HostOrder::Newcomer& newcomer);
  // Reserves a slot for a block of a space whose blocks are all of one length.
  absl::StatusOr<HostSlot> ReserveHost(DomainId domain, uint64_t block_bytes) {
    return ReserveHost(domain, ExactRoom(block_bytes));
  }
  // Drops the blocks of host memory that nobody holds, kEvictedPerTurn in each turn of `executor`;
  // returns how many. Drops no more than there are now.
  Task<uint64_t> EvictAll(Executor* executor);
  // Drops blocks of the domain in the same way until there is none that nobody holds, also such as
  // come meanwhile.
  Task<uint64_t> EvictDomain(Executor* executor, DomainId domain, uint64_t limit = UINT64_MAX);
  // Drops, of the domain's blocks that nobody holds, the first `limit` to leave; returns how many.
  uint64_t EvictSome(DomainId domain, uint64_t limit);
  // Drops the block in slots of that size that leaves first, because `cause` is to have memory of
  // the domain. False: none may leave.
  bool EvictNext(DomainId domain, uint64_t slot_bytes, DomainId cause);
  // Drops the blocks of one slab that are neither pinned nor kept, because `cause` is to have it.
  void EvictSlab(DomainId domain, uint32_t slab, DomainId cause);
  // REQUIRES: the block is in host memory, and nobody has pinned it there.
  void DropFromHost(const BlockKey& key);
  // Returns which domain's blocks made room for which domain.
  const EvictionLedger& ledger() const { return ledger_; }
  // Returns whether the block left host memory lately to make room, and no tier of this node had it
  // then.
  bool WasEvicted(const BlockKey& key) const { return evicted_.Contains(key); }

 private:
  // Drops what VictimsInHost() names and reserves; returns `full` where that makes no room.
  absl::StatusOr<HostSlot> ReserveByEviction(DomainId domain, const BlockRoom& room,
                                             const absl::Status& full);
  void EvictFromHost(const BlockKey& key);

  BlockIndex* const index_;
  HostTier* const host_;
  TierStats* const stats_;
  EvictedKeys evicted_;
  EvictionLedger ledger_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_EVICT_H_
