// EvictionOrder says which block of one tier leaves next: of the blocks that are not held and have
// no child in the tier, the one that the policy names. So a prefix outlives the blocks that
// continue it, and is worth as much as all of them together, because none of them is of use without
// it.
//
// Learnt (kLearnt): the block whose room is worth the least leaves, as WorthQueues ranks them, and
// a newcomer that is worth less than all blocks that are here is refused. ReuseSample teaches the
// order and checks that it finds no less than LRU. While the learnt order finds less, blocks leave
// by weight (hints, left behind) and those of one weight in the order of LRU. EvictionPolicy
// explains LRU, FIFO and priority, which refuse no block.
//
// Blocks of several groups (sizes of slots) share one order; a choice may be made within a group.
//
// The order has no table of its members by key: its owner has one, and the order asks it
// (FindPlace).
//
// Pure bookkeeping: no I/O, no threads; AdvanceTo() brings the time. Executor thread only.
// Invariants, checked by Audit(): `queues_` holds exactly the members that are not held, have no
// member child and are not set aside; last uses are unique; a block that is no member is known only
// while it is the parent of one; a parent's children are listed exactly once each.
// Memory: 40 bytes a block, 16 for four that left, 20 to 40 for each block without a child or set
// aside, and 9 to 18 for each that its parent does not link to: a second child, or one whose parent
// is no member. ReuseSample and ReuseHazards are of fixed size. All of it grows in small steps, so
// that no operation is a long turn of the executor.
#ifndef KVTIER_CORE_EVICTION_ORDER_H_
#define KVTIER_CORE_EVICTION_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "core/arrival.h"
#include "core/aside_blocks.h"
#include "core/block_key.h"
#include "core/conversations.h"
#include "core/departed_blocks.h"
#include "core/eviction_policy.h"
#include "core/eviction_summary.h"
#include "core/moment.h"
#include "core/numbers_by_key.h"
#include "core/reuse_hazards.h"
#include "core/reuse_hint.h"
#include "core/reuse_sample.h"
#include "core/reuse_state.h"
#include "core/steady_vector.h"
#include "core/worth_queues.h"

namespace kvtier {

class EvictionOrder {
 public:
  // Place says where a member stands. A member keeps its place until Erase().
  enum class Place : uint32_t {};
  // Returns where the member with this key stands; nullopt: there is none. The order never asks for
  // a block whose Insert() or Erase() is in progress.
  using FindPlace = std::function<std::optional<Place>(const BlockKey&)>;
  // A block that comes: what it is, why it comes, and what its engine says.
  struct Newcomer {
    BlockKey key;
    std::optional<BlockKey> parent{};  // nullopt: a root. May be absent, or come later.
    Arrival arrival = Arrival::kComputed;
    ReuseHint hint{};
    uint32_t group = 0;
    uint32_t followers = 0;  // Blocks of the same request that continue it.
    uint64_t length = 0;     // Length of the block, in the unit of `attention_length`.
  };

  // `attention_length` is the length of a prefix, in the unit of Newcomer::length, after which
  // attention costs as much as the rest of the work of computing a block; 0: a block costs the same
  // anywhere.
  EvictionOrder(EvictionPolicy policy, FindPlace find, uint64_t attention_length = 0);
  EvictionOrder(EvictionOrder&&) = delete;

  // Moves the order's clock, which stands still between calls and never goes back.
  void AdvanceTo(absl::Time now) { clock_.AdvanceTo(now); }

  // Adds the block as the most recent. A parent that would close a cycle (an engine that lies about
  // its chain) is dropped: the block is then a root, so that every member stays evictable.
  // REQUIRES: it is no member.
  Place Insert(const Newcomer& newcomer);
  // Returns whether the newcomer, which is no member, is worth at least as much as the block of its
  // group that would leave for it.
  bool Admits(const Newcomer& newcomer);
  // Remembers that the block was asked for and got no room, as if it had come and left.
  void Refuse(const Newcomer& newcomer);
  // Makes the member the most recent. Touch a prefix from its last block to its first, so that
  // heads leave later than tails.
  void Touch(Place place, const ReuseHint& hint = {});
  // Takes over what the engine says of the member. This does not count as a use.
  void Advise(Place place, const ReuseHint& hint);
  // Notes whether the tier below has the member. That moves no block that is set aside.
  void NoteBelow(Place place, bool is_below);
  // Keeps a member from leaving, because it is pinned, leased, kept or in flight. Holds do not
  // nest. REQUIRES: Unhold() pairs with Hold().
  void Hold(Place place);
  void Unhold(Place place);
  // Removes the member; a learnt order remembers its uses. REQUIRES: the member is not held.
  void Erase(Place place);

  // Returns the member's place, as the owner's FindPlace says.
  std::optional<Place> Find(const BlockKey& key) const { return find_(key); }
  // Prefetches the cache lines that Insert() of the block reads.
  void PrefetchCacheLines(const BlockKey& key) const {
    if (learning_ == nullptr) return;
    learning_->departed.PrefetchCacheLines(key);
    learning_->sample.PrefetchCacheLines(key);
  }
  // Calls `visit` with each member whose parent is `key`, itself a member or not, until it returns
  // false. No block may come or leave meanwhile.
  template <typename Visit>
  void ForEachChildOf(const BlockKey& key, Visit visit) const {
    const std::optional<Place> place = find_(key);
    const uint32_t parent = place.has_value() ? static_cast<uint32_t>(*place) : absent_.Find(key);
    if (parent != kNone)
      VisitChildren(parent, [&](uint32_t child) { return visit(places_[child].key); });
  }
  // REQUIRES of these: a member.
  const BlockKey& KeyOf(Place place) const { return At(place).key; }
  Moment LastUseOf(Place place) const { return At(place).last; }
  const ReuseState& StateOf(Place place) const { return At(place).state; }
  bool IsCandidate(Place place) const { return IsCandidate(At(place)); }
  // Returns whether the member was set aside since its last use.
  bool WasSetAside(Place place) const { return At(place).was_aside != 0; }
  size_t size() const { return size_; }
  size_t held() const { return held_; }
  // Returns the moment of the last use of any block.
  Moment last_moment() const { return clock_.now(); }

  // Returns the candidate that leaves next, of a group or of all; nullopt: everything is held or
  // the tier is empty.
  std::optional<BlockKey> Victim(uint32_t group = WorthQueues::kAllGroups);
  // Sets aside the next block of the group that is to leave: a candidate, or a block whose children
  // are all set aside. It leaves before the blocks that are not set aside, unless it is used,
  // continued or advised of first. So the owner can prepare for its leaving ahead of need.
  struct SetAside {
    BlockKey key;
    bool again = false;  // Whether it was set aside before, since its last use.
  };
  std::optional<SetAside> SetNextAside(uint32_t group);
  size_t aside(uint32_t group) const { return aside_.size(group); }
  size_t members(uint32_t group) const { return group < members_.size() ? members_[group] : 0; }

  // Returns the first member in the order of leaving for which `accept` is true, looking at `limit`
  // members at most. VictimWhere() and VictimsWhere() leave out members that are set aside.
  template <typename Accept>
  std::optional<BlockKey> VictimWhere(size_t limit, Accept accept) {
    WorthQueues::Walk walk = WalkOut();
    for (; limit > 0; --limit) {
      const std::optional<WorthQueues::Choice> next = walk.Next();
      if (!next) break;
      const BlockKey& key = places_[next->item].key;
      if (accept(key)) return key;
    }
    return std::nullopt;
  }
  // Returns the `count` members that would leave one after the other, in this order: a parent after
  // its last child. A member for which `accept` is false stays, and so do its ancestors. Looks at
  // `limit` members at most.
  template <typename Accept>
  std::vector<BlockKey> VictimsWhere(size_t count, size_t limit, Accept accept) {
    std::vector<BlockKey> victims;
    Leaving leaving(this);
    for (; limit > 0 && victims.size() < count; --limit) {
      const std::optional<uint32_t> next = leaving.Next();
      if (!next) break;
      if (!accept(places_[*next].key)) continue;
      victims.push_back(places_[*next].key);
      leaving.Left(*next);
    }
    return victims;
  }

  EvictionPolicy policy() const { return policy_; }
  // Returns the policy in effect: kLru instead of kLearnt while the order has learnt too little or
  // finds less.
  EvictionPolicy followed() const;
  // Returns the figures of this order for operators.
  EvictionSummary Summary() const;
  // Returns what the order learns from the uses of blocks; null: its policy does not learn. The
  // order follows lessons given to ReuseHazards::Take() at once.
  ReuseHazards* hazards() { return learning_ == nullptr ? nullptr : &learning_->hazards; }
  void Audit() const;

 private:
  static constexpr uint32_t kNone = AsideBlocks::kNoBlock;
  // Node is everything that is known of one block, in 40 bytes.
  struct Node {
    BlockKey key;
    uint64_t last : 48 = 0;  // Moment of its last use.
    uint64_t group : 16 = 0;
    uint32_t parent = kNone;     // Member or not; kNone: a root.
    uint32_t children : 26 = 0;  // Member children.
    uint32_t is_member : 1 = 0;
    uint32_t is_held : 1 = 0;
    uint32_t is_queued : 1 = 0;
    // Whether its queue is one of `bared_`, because its children are all aside.
    uint32_t is_bared : 1 = 0;
    uint32_t is_aside : 1 = 0;
    uint32_t was_aside : 1 = 0;  // Whether it was set aside since its last use.
    // One of a member's children, or kNone. In a node that is no member, it is a link of
    // NumbersByKey, or of the list of free places.
    uint32_t next = kNone;
    ReuseState state;
  };
  static_assert(sizeof(Node) == 40 && NumbersByKey<Node>::kNone == kNone);
  // Parts that only the learnt order has.
  struct Learning {
    ReuseHazards hazards;
    DepartedBlocks departed;
    ReuseSample sample{&hazards};
    Conversations conversations;
  };
  // Leaving names the blocks that would leave one after the other: those of a walk over the queues,
  // and a parent once its last child would have left.
  class Leaving {
   public:
    explicit Leaving(EvictionOrder* order) : order_(order), walk_(order->WalkOut()) {}
    std::optional<uint32_t> Next();
    void Left(uint32_t number);

   private:
    EvictionOrder* const order_;
    WorthQueues::Walk walk_;
    std::optional<WorthQueues::Choice> next_;  // Next of the walk, if `looked_`.
    bool looked_ = false;
    std::vector<WorthQueues::Choice> bared_;
    absl::flat_hash_map<uint32_t, uint32_t> left_;  // Number of children that left, by parent.
  };

  const Node& At(Place place) const { return places_[static_cast<uint32_t>(place)]; }
  Node& At(Place place) { return places_[static_cast<uint32_t>(place)]; }
  // Takes a free place for the block and returns its number.
  uint32_t TakePlace(const BlockKey& key);
  void FreePlace(uint32_t number) { places_[number].next = std::exchange(free_, number); }
  // Returns the number of the member that is the newcomer's parent; kNone: there is none.
  uint32_t ParentOf(const Newcomer& newcomer) const;
  // Returns the number of a parent that is no member, for which a node is added if need be.
  uint32_t AbsentParent(const BlockKey& key);
  bool Descends(uint32_t number, uint32_t ancestor) const;
  // Returns the state that the newcomer begins with; `parent` is ParentOf(newcomer).
  ReuseState StateFor(const Newcomer& newcomer, uint32_t parent) const;
  // Sets the block's state and, if the block is queued, moves it to the queue of that state.
  void Restate(uint32_t number, const ReuseState& state);
  // Notes that a conversation went on with the new member, which may leave others behind.
  void GoOn(uint64_t conversation, uint32_t number);
  // Calls `visit` with the numbers of the children of `parent` until it returns false.
  template <typename Visit>
  void VisitChildren(uint32_t parent, Visit visit) const {
    const Node& node = places_[parent];
    if (node.is_member != 0 && node.next != kNone && !visit(node.next)) return;
    auto other = other_children_.lower_bound({parent, 0});
    while (other != other_children_.end() && other->first == parent && visit(other->second)) {
      ++other;
    }
  }
  // Makes the new member a child of `parent`, member or not, unless that closes a cycle.
  void Follow(uint32_t number, uint32_t parent);
  WorthQueues::QueueId QueueFor(const Node& node) const;
  static bool IsCandidate(const Node& node) {
    return node.is_member != 0 && node.is_held == 0 && node.children == 0;
  }
  // Puts the block into its queue or takes it out, as its state now demands.
  void Refresh(uint32_t number);
  // Takes the block out of its queue or out of `aside_`; Refresh() queues it again.
  void TakeOut(uint32_t number);
  // Ends the setting aside of the block and of its ancestors.
  void BringBack(uint32_t number);
  // Takes the block out of `aside_`. The caller refreshes its parent.
  void EndAside(uint32_t number);
  WorthQueues& QueuesOf(const Node& node) { return node.is_bared != 0 ? bared_ : queues_; }
  // Returns the number of the candidate of the group, or of all, that leaves next.
  std::optional<uint32_t> FirstToLeave(uint32_t group);
  WorthQueues::Ranked ranked() const;
  WorthQueues::Walk WalkOut() { return {&queues_, ranked(), clock_.now()}; }

  const EvictionPolicy policy_;
  const FindPlace find_;
  const uint64_t attention_length_;
  MomentClock clock_;
  size_t size_ = 0;
  size_t held_ = 0;
  uint64_t refused_ = 0;
  SteadyVector<Node> places_;
  uint32_t free_ = kNone;                // The first free place.
  NumbersByKey<Node> absent_{&places_};  // Parents of members that are no members themselves.
  // Parent and child, of children that no Node::next names. Most parents have one child.
  absl::btree_set<std::pair<uint32_t, uint32_t>> other_children_;
  const std::unique_ptr<Learning> learning_;  // Null: the policy is not kLearnt.
  WorthQueues queues_;
  WorthQueues bared_;
  std::vector<size_t> members_;  // Number of members of each group.
  AsideBlocks aside_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_EVICTION_ORDER_H_
