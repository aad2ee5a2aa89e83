// BlockIndex is the node's truth: which blocks it has, and in which tiers. The index itself knows
// the blocks of host memory. The disks and the GPU pools know their own blocks (DiskResidents,
// GpuBlocks), and the index asks them. Publishing is the last act of a put or load, unpublishing
// the first of an eviction (law 2); both are told through BlockChanges.
//
// Executor thread only; no I/O. Invariants, checked by Audit(): each block of host memory is in the
// order of its domain, and nothing else is in an order; the orders hold the blocks that are pinned
// or kept; pinned_bytes() is the sum over the pinned blocks, condemned ones included.
#ifndef KVTIER_AGENT_INDEX_BLOCK_INDEX_H_
#define KVTIER_AGENT_INDEX_BLOCK_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "agent/index/block_changes.h"
#include "agent/index/host_blocks.h"
#include "agent/index/host_order.h"
#include "agent/index/member_pins.h"
#include "agent/index/pin.h"
#include "core/arrival.h"
#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/clock.h"
#include "core/eviction_policy.h"
#include "core/node.h"
#include "core/reuse_hint.h"
#include "core/tier.h"
#include "tier_disk/disk_residents.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class GpuBlocks;

class BlockIndex final : public PinHome {
 public:
  // Parts are objects and options of the index; it owns none of the objects.
  struct Parts {
    size_t domains = 1;  // Number of host domains at first; each has its own HostOrder.
    EvictionPolicy host_eviction = EvictionPolicy::kLearnt;
    uint64_t attention_bytes =
        0;  // Unit of attention of the orders of host memory (EvictionOrder).
    const Clock* clock = nullptr;
    BlockChanges* changes = nullptr;
    DiskResidents* disks = nullptr;  // Null: no disk tier.
  };
  explicit BlockIndex(const Parts& parts);
  // Lets the index answer for this pool's blocks, too; GpuBlocks calls it when it is made. Does not
  // own `pool`, which must live as long as the index is asked.
  void Join(GpuBlocks* pool) { pools_.push_back(pool); }

  // Adds a domain, whose id is domain_count() - 1 from now on.
  void AddDomain();
  // Gives up what the domain's order has learnt, and its memory: its tenant is gone. REQUIRES: no
  // block of it is in host memory, or comes there.
  void DropDomain(DomainId domain);

  // Returns the time of the clock by which blocks come and are used.
  absl::Time Now() const { return parts_.clock->Now(); }
  // Adds the block, which came at `now`. REQUIRES: it is not in host memory; `slot` holds its
  // verified bytes.
  void PublishHost(const BlockMeta& meta, HostSlot slot, Arrival arrival, const ReuseHint& hint,
                   absl::Time now);
  // Prefetches the cache lines that PublishHost() of the block is about to read. It is
  // for many blocks in a row: the memory is waited for once.
  void PrefetchCacheLines(DomainId domain, const BlockKey& key) const;
  // Takes the block out of host memory, and returns its slot, which the caller frees by destroying
  // it. If the block was kept, that ends, and the followers are told (BlockChange). REQUIRES: the
  // block is there and not pinned.
  HostSlot UnpublishHost(const BlockKey& key);

  // Takes a damaged block out of host memory at once, although it is pinned: it is not found any
  // more, it gets no lease, and a put of its key gets another slot. Its own slot is free when its
  // last pin ends, because readers may still copy from it. Returns false if it was condemned
  // before. REQUIRES: the pin is of a block in host memory.
  bool Condemn(const Pin& pin);

  // Returns the block in host memory; nullptr: it is not there. Valid until the next change.
  const HostBlock* Find(const BlockKey& key) const { return blocks_.Find(key); }
  bool In(Tier tier, const BlockKey& key) const;
  // Returns whether host memory or a disk has the block, from which a GPU pool can be filled again.
  bool InLowerTier(const BlockKey& key) const {
    return In(Tier::kHost, key) || In(Tier::kDisk, key);
  }
  // Returns the tier nearest to the GPU that has the block; nullopt: none on this node.
  std::optional<Tier> NearestTier(const BlockKey& key) const;

  // Calls `visit` with each block of the domain that names `parent` as its parent, in any tier of
  // this node, until it returns false; a block of several tiers may come more than once. Nothing
  // may change meanwhile.
  void ForEachChildOf(DomainId domain, const BlockKey& parent,
                      absl::FunctionRef<bool(const BlockKey&)> visit) const;

  // Pins the block in host memory; nullopt: it is not there.
  std::optional<Pin> PinOf(const BlockKey& key) override;
  // Pins a block in host memory for a worker that is to lease it, of that member if the block is a
  // share group's. Returns nullopt also if the member may pin no more of the group's memory, or if
  // the block's slab is being emptied, which new leases would delay for ever.
  std::optional<Pin> PinToLease(const BlockKey& key, std::optional<DomainId> member = {});
  // Returns what members of share groups have pinned.
  const MemberPins& member_pins() const { return member_pins_; }
  // Returns whether a lease, a ticket or a copy needs the block where it lies. A block that is kept
  // and not pinned may be moved to another slot of its domain.
  bool IsPinned(const BlockKey& key) const;
  bool IsKept(const BlockKey& key) const;
  // Moves the block to another slot, of the same size and domain, and returns the one that it had.
  // No follower is told, because the block itself does not change. REQUIRES: it is there and not
  // pinned, and `slot` holds the same bytes.
  HostSlot MoveTo(const BlockKey& key, HostSlot slot);
  // Keeps the block from being evicted, wherever it lies, under the caller's number for it, until
  // Unkeep() or until it leaves host memory for another reason. REQUIRES: it is there, and not
  // kept; `number` is not 0.
  void Keep(const BlockKey& key, KeptNumber number);
  // REQUIRES: the block is in host memory and kept.
  void Unkeep(const BlockKey& key);
  // Notes that a worker asked for the pinned block and this node's memory had it. Ignores a block
  // that is not in host memory.
  void CountHit(const Pin& pin);
  // Notes that the domain's tenant is being erased. A flow that brings a block of it to memory
  // looks at erasures() before it begins, and publishes nothing when the number has changed.
  void CountErasure(DomainId domain) { ++erasures_.at(static_cast<size_t>(domain)); }
  uint64_t erasures(DomainId domain) const { return erasures_.at(static_cast<size_t>(domain)); }
  // Marks the blocks of a run, which `run` pins in host memory or a GPU pool, as just used in every
  // tier that has them; the head of the run is then the most recently used. Returns those that are
  // in host memory, in the order of the run.
  std::vector<const HostBlock*> Touch(std::span<const Pin* const> run, const ReuseHint& hint);
  // Tells the orders of host memory and of the GPU pools what an engine says of the next use of a
  // run. This does not count as a use. Returns how many of the blocks are there.
  size_t Advise(std::span<const BlockKey> run, const ReuseHint& hint);

  // Returns the unpinned block with no child in the domain that leaves first.
  std::optional<BlockKey> FirstToLeaveHost(DomainId domain);
  // Returns the order of the domain, its clock moved to the present.
  HostOrder& OrderNow(DomainId domain);
  // Returns EvictionOrder::hazards() of the domain.
  ReuseHazards* HazardsOf(DomainId domain) {
    return host_.at(static_cast<size_t>(domain))->hazards();
  }
  // Returns what the orders of host memory or of the GPU pools do. REQUIRES: not kDisk.
  EvictionSummary SummaryOf(Tier tier) const;
  // Returns HostOrder::VictimsFor(); `slots` are the domain's.
  std::vector<BlockKey> VictimsInHost(DomainId domain, uint64_t slot_bytes, const SlotPool& slots);
  // Returns HostOrder::From() of the domain.
  std::vector<BlockKey> InHostFrom(DomainId domain, size_t blocks, uint64_t bytes,
                                   uint64_t* offset) const {
    return host_order(domain).From(offset, blocks, bytes);
  }

  const std::vector<GpuBlocks*>& pools() const { return pools_; }
  size_t domain_count() const { return host_.size(); }
  const HostOrder& host_order(DomainId domain) const {
    return *host_.at(static_cast<size_t>(domain));
  }
  size_t blocks_in(Tier tier) const;
  // Counts the copies of blocks in all tiers.
  size_t copies() const;
  // Returns the bytes of slots with blocks in host memory that the blocks' payloads leave unused.
  uint64_t padding_bytes() const { return padding_bytes_; }
  size_t blocks_in_host(DomainId domain) const { return host_order(domain).size(); }
  // Counts the condemned blocks of the domain that somebody has pinned still. O(condemned blocks).
  size_t condemned_in(DomainId domain) const;
  // Returns host and disk copies as adds, in the order of the keys: a snapshot.
  std::vector<Delta> Snapshot() const;
  // Place in a snapshot that is taken in many turns.
  struct SnapshotPlace {
    bool is_past_host = false;
    size_t host = 0;
    DiskWalk disks{};
  };
  // Adds the part of a snapshot from `*at` on to `deltas`, and moves `*at` on; looks at `limit`
  // places at most. Returns false if it was the last part. The parts and the changes that are told
  // meanwhile, in the order in which they come, say what is here at the end.
  bool SnapshotFrom(SnapshotPlace* at, size_t limit, std::vector<Delta>* deltas) const;
  // Calls `visit` with each block of host memory, in no order.
  template <typename Visit>
  void ForEachInHost(Visit visit) const {
    blocks_.ForEach(visit);
  }
  void Audit() const;

 private:
  // DiskFollower tells the orders which blocks of host memory a disk has, too.
  class DiskFollower final : public BlockFollower {
   public:
    explicit DiskFollower(BlockIndex* index) : index_(index) {}
    void OnChange(const BlockChange& change) override;

   private:
    BlockIndex* const index_;
  };
  // Takes the block out of its order and hides it; returns the change to tell.
  BlockChange TakeOut(HostBlock* block);
  // Returns the place of the block in the order of the domain; nullopt: it is not there.
  std::optional<HostOrder::Place> PlaceOf(DomainId domain, const BlockKey& key) const;
  HostOrder& OrderOf(const HostBlock& block) {
    return *host_.at(static_cast<size_t>(block.slot.domain()));
  }
  void Hold(ResidentBlock* block) override;
  void Unhold(ResidentBlock* block) override;
  bool Charge(const ResidentBlock& block, DomainId member) override;
  void Uncharge(const ResidentBlock& block, DomainId member) override {
    member_pins_.GiveBack(&block, member);
  }

  const Parts parts_;
  HostBlocks blocks_;
  MemberPins member_pins_;
  absl::flat_hash_set<const HostBlock*> condemned_;  // Condemned blocks that are still pinned.
  // Orders by domain, never empty; when a domain is dropped, its order is made again in place.
  std::deque<std::optional<HostOrder>> host_;
  absl::flat_hash_set<DomainId> dropped_;
  std::vector<uint64_t> erasures_;  // Number of erasures of each domain.
  std::vector<GpuBlocks*> pools_;
  DiskFollower disk_follower_{this};
  uint64_t padding_bytes_ = 0;  // Padding of host memory: padding_bytes().
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_BLOCK_INDEX_H_
