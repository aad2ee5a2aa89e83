// HostOrder is the order in which the blocks of one domain leave host memory. It says which blocks
// leave when a slot of some size is needed and none is free.
//
// If EvictionOrder names a block of that size, that block leaves. Otherwise all blocks of one slab
// of another size leave, because slots of another size make room only when a whole slab of them is
// emptied. This also happens if the size is starved, that is, if the block that it would drop was
// used later than the blocks of that slab on average. The order tests for starvation once for each
// slab's worth of bytes that a size drops of its own. It chooses the slab that costs least among
// the slabs of other sizes that can be emptied: each of its used slots has a block, and none of
// these blocks is held. The cost of a slab is its used bytes over the mean age of its blocks.
//
// A block that is dropped with a slab may have children that stay. The children are served again
// when their parent is back. Until then they are next to leave, because no request can use them.
//
// Pure bookkeeping: no I/O, no clock. Executor thread only. A choice costs O(log blocks),
// and one among slabs O(slabs + blocks of the one chosen). Invariants, checked by Audit():
// the counts and sums of a slab are those of the blocks in it; a slot has one block at most.
#ifndef KVTIER_AGENT_INDEX_HOST_ORDER_H_
#define KVTIER_AGENT_INDEX_HOST_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/arrival.h"
#include "core/block_key.h"
#include "core/block_proof.h"
#include "core/eviction_order.h"
#include "core/reuse_hint.h"
#include "tier_host/host_tier.h"
#include "tier_host/slot_pool.h"

namespace kvtier {

class HostOrder {
 public:
  // A block's place in the order, which it keeps until Erase().
  using Place = EvictionOrder::Place;

  // Makes an empty order; `find` and `attention_bytes` mean the same as in EvictionOrder.
  HostOrder(EvictionPolicy policy, EvictionOrder::FindPlace find, uint64_t attention_bytes = 0)
      : order_(policy, std::move(find), attention_bytes) {}

  // Moves the clock of the order; it stands still between calls.
  void AdvanceTo(absl::Time now) { order_.AdvanceTo(now); }
  // Adds the block in `slot` as the most recent. REQUIRES: it is no member, and `slot` is
  // of the same domain in all calls.
  Place Insert(const BlockMeta& meta, const HostSlot& slot, Arrival arrival, const ReuseHint& hint);
  // A block that a worker wants to put.
  struct Newcomer {
    const BlockMeta* meta = nullptr;
    uint64_t slot_bytes = 0;
    uint32_t followers = 0;  // Blocks of the same request that continue it.
    bool parent_refused = false;
    ReuseHint hint{};
  };
  // Returns whether the newcomer is worth at least as much as the block of its size that would
  // leave for it; false if its parent was refused.
  bool Admits(const Newcomer& newcomer) {
    return !newcomer.parent_refused && order_.Admits(InOrder(newcomer));
  }
  // Remembers a block that got no room as if it had come and left.
  void Refuse(const Newcomer& newcomer) { order_.Refuse(InOrder(newcomer)); }
  // Prefetches the cache lines that Insert() of the block reads.
  void PrefetchCacheLines(const BlockKey& key) const { order_.PrefetchCacheLines(key); }
  // REQUIRES for Touch() and the functions after it: the block of `place` is in `slot`; a block
  // that is erased is not held.
  void Touch(Place place, const HostSlot& slot, const ReuseHint& hint);
  // Takes note of what the engine says of the block's next use. This does not count as a use.
  void Advise(Place place, const ReuseHint& hint) { order_.Advise(place, hint); }
  void NoteBelow(Place place, bool is_below) { order_.NoteBelow(place, is_below); }
  // Removes the block. Returns whether it had been set aside since its last use.
  bool Erase(Place place, const HostSlot& slot);
  // Notes that the block lies in another slot of the same size now. REQUIRES: it is not held.
  void Move(Place place, const HostSlot& from, const HostSlot& to);
  // Holds the block, which then never leaves. Holds do not nest.
  void Hold(Place place, const HostSlot& slot);
  void Unhold(Place place, const HostSlot& slot);

  const BlockKey& KeyOf(Place place) const { return order_.KeyOf(place); }
  size_t size() const { return order_.size(); }
  const EvictionOrder& order() const { return order_; }
  ReuseHazards* hazards() { return order_.hazards(); }
  // Returns the blocks from `*offset` of the arena on, by offset, `blocks` of them at most, and
  // only those that begin less than `bytes` after the first. Moves `*offset` past the beginning of
  // the last of them. Empty: there is none.
  std::vector<BlockKey> From(uint64_t* offset, size_t blocks, uint64_t bytes) const;
  // Returns the block without a child that nobody holds that leaves first, of any size.
  std::optional<BlockKey> Victim() { return order_.Victim(); }
  // Returns the blocks to drop so that `slots`, the domain's, has a slot of `slot_bytes`. Empty:
  // no choice makes room.
  std::vector<BlockKey> VictimsFor(uint64_t slot_bytes, const SlotPool& slots);
  // Returns the slab that it costs least to empty of those in use: one whose blocks can leave now
  // or, if there is none, the one with the fewest slots that are held. nullopt: none is in use.
  std::optional<uint32_t> SlabToEmpty(const SlotPool& slots) const;
  // Returns the block in slots of that size that leaves first; nullopt: none may leave.
  std::optional<BlockKey> VictimOf(uint64_t slot_bytes) {
    return order_.Victim(SizeOf(slot_bytes).group);
  }
  // Returns the blocks in the slab.
  std::vector<BlockKey> BlocksOf(uint32_t slab) const;
  // Returns the same blocks, most recently used first.
  std::vector<BlockKey> LatestUsedOf(uint32_t slab) const;
  // Marks a slab whose blocks get no new leases, because it is being emptied, or ends that.
  void BeginLeaving(uint32_t slab);
  void EndLeaving(uint32_t slab) { slabs_.at(slab).leaving = false; }
  bool IsLeaving(const HostSlot& slot) const { return slabs_[slot.slab()].leaving; }
  // Sets the block that leaves next of those in slots of that size aside, as EvictionOrder does.
  std::optional<EvictionOrder::SetAside> SetNextAside(uint64_t slot_bytes);
  // Numbers of blocks in slots of one size, and of those among them that are set aside.
  struct SizeUse {
    uint64_t slot_bytes = 0;
    uint64_t blocks = 0;
    uint64_t aside = 0;
  };
  std::vector<SizeUse> UseBySize() const;
  void Audit() const;

 private:
  struct Size {
    uint32_t group = 0;    // Group in `order_`.
    uint64_t dropped = 0;  // Bytes of blocks dropped one by one since slabs were looked at.
  };
  struct Slab {
    // Offset in the arena; set, like the next field, while the slab has blocks.
    uint64_t offset = 0;
    uint64_t slot_bytes = 0;  // Size of each of its slots.
    // Places by slot number, up to the highest slot that had a block; nullopt: no block.
    std::vector<std::optional<Place>> places;
    uint32_t blocks = 0;
    uint32_t held = 0;     // Number of these blocks that are held.
    bool leaving = false;  // Whether the slab is being emptied: its blocks get no new leases.
    Moment last_uses = 0;  // Sum of the last uses of its blocks.
  };
  struct Choice {
    uint32_t slab = 0;
    double mean_age = 0;  // Mean age of its blocks, in moments.
  };
  // Returns the slab that costs least of those that can be emptied and whose slots are not of
  // `slot_bytes`; nullopt: there is none.
  std::optional<Choice> CheapestSlab(uint64_t slot_bytes, const SlotPool& slots) const;
  Size& SizeOf(uint64_t slot_bytes);
  // Lists the block in its slab, or takes it out of there.
  void AddToSlab(Place place, const HostSlot& slot);
  void TakeFromSlab(Place place, const HostSlot& slot);
  EvictionOrder::Newcomer InOrder(const Newcomer& newcomer);

  EvictionOrder order_;             // Order of the blocks, with one group for each slot size.
  std::map<uint64_t, Size> sizes_;  // Sizes by slot size.
  std::vector<Slab> slabs_;         // Slabs by number, up to the highest slab that had a block.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_HOST_ORDER_H_
