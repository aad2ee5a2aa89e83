// LruLeaves picks the coldest block of one tier that has no child there: plain
// LRU that never drops a parent before its child, because a prefix without its
// head is no hit at all.
//
// Members may stand in several queues, each by recency, for who picks among their coldest.
// A caller that keeps a member's Place saves the lookup of its key.
//
// Pure bookkeeping: no I/O, no clock (recency is the order of the calls), no
// threads. Executor thread only.
// Invariants, checked by Audit(): the candidates are exactly the members that are
// not held and have no member child; ticks are unique; a block that is no member is known
// only while it is the parent of one.
#ifndef KVTIER_CORE_LRU_LEAVES_H_
#define KVTIER_CORE_LRU_LEAVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/node_hash_map.h"
#include "core/block_key.h"

namespace kvtier {

class LruLeaves {
 public:
  // What is known of one block. It stays where it is while the block is a member.
  class Place {
   public:
    const BlockKey& key() const { return key_; }
    uint64_t tick() const { return tick_; }

   private:
    friend class LruLeaves;
    BlockKey key_;
    uint64_t tick_ = 0;
    Place* parent_ = nullptr;  // Member or not; nullptr: a root.
    uint32_t children_ = 0;    // Member children.
    uint32_t holds_ = 0;
    uint32_t queue_ : 30 = 0;
    bool is_member_ : 1 = false;
    bool is_candidate_ : 1 = false;  // It is in candidates_[queue_].
  };
  using Candidates = absl::btree_map<uint64_t, Place*>;  // By tick.

  explicit LruLeaves(size_t queues = 1) : candidates_(queues) {}
  // Returns the number of one more queue.
  size_t AddQueue();
  // Adds `key` as the most recent, and returns its place. `parent` may be absent from the tier, may
  // come later, or be nullopt for a root. A parent that would close a cycle (an engine
  // that lies about its chain) is dropped: `key` is then a root, so that every
  // member stays evictable. REQUIRES: `key` is not a member; the queue exists.
  Place* Insert(const BlockKey& key, const std::optional<BlockKey>& parent, size_t queue = 0);
  // Loads what Insert() of the block looks at into the processor's caches.
  void WarmFor(const BlockKey& key) const { places_.prefetch(key); }
  // As Insert(), in queue 0, where it stood before: `tick` is what TickOf() gave before Erase().
  void InsertAt(const BlockKey& key, const std::optional<BlockKey>& parent, uint64_t tick);
  // Its place in the order of recency. REQUIRES: `key` is a member.
  uint64_t TickOf(const BlockKey& key) const { return At(key).tick_; }
  // The place of the most recent of all.
  uint64_t LastTick() const { return next_tick_ - 1; }
  // Makes the member the most recent of `queue`. Returns its TickOf() before. Touch a prefix from
  // its last block to its first, so that heads stay warmer than tails.
  uint64_t Touch(Place* place, size_t queue = 0);
  // nullopt: `key` is no member, and ignored.
  std::optional<uint64_t> Touch(const BlockKey& key, size_t queue = 0);
  // REQUIRES: it is not held. `place` is gone then.
  void Erase(Place* place);
  // Held members (pinned, leased, in flight) are never victims. Counts nest.
  // REQUIRES: Unhold() pairs with Hold().
  void Hold(Place* place);
  void Unhold(Place* place);
  // The same by key. REQUIRES: `key` is a member.
  void Erase(const BlockKey& key) { Erase(&At(key)); }
  void Hold(const BlockKey& key) { Hold(&At(key)); }
  void Unhold(const BlockKey& key) { Unhold(&At(key)); }

  bool Contains(const BlockKey& key) const { return Find(key) != nullptr; }
  size_t size() const { return size_; }
  size_t held() const { return held_; }
  size_t QueueOf(const BlockKey& key) const { return At(key).queue_; }
  // A member that is not held and has no member child. REQUIRES: `key` is a member.
  bool IsCandidate(const BlockKey& key) const { return At(key).is_candidate_; }
  // The parent of the last of `gone`, if it were a candidate without all of them; nullopt:
  // there is none here, or it would not be. REQUIRES: `gone` are members, one at least.
  std::optional<BlockKey> CandidateWithout(std::span<const BlockKey> gone) const;
  // Of one queue, coldest first.
  const Candidates& candidates(size_t queue) const { return candidates_[queue]; }
  // The coldest candidate of all queues; nullopt: everything is held or the tier is empty.
  std::optional<BlockKey> Victim() const;
  std::optional<BlockKey> VictimOf(size_t queue) const;
  // Aborts when an invariant of the header does not hold; O(n).
  void Audit() const;

 private:
  const Place* Find(const BlockKey& key) const;  // nullptr: no member.
  const Place& At(const BlockKey& key) const;
  Place& At(const BlockKey& key) { return const_cast<Place&>(std::as_const(*this).At(key)); }
  // Returns what is known of the block, which may be nothing yet.
  Place& PlaceOf(const BlockKey& key);
  // Forgets the block if nothing is known of it any more.
  void ForgetIfUnknown(Place* place);
  Place* Add(const BlockKey& key, const std::optional<BlockKey>& parent, uint64_t tick,
             size_t queue);
  // True when `ancestor` is `place` or is reached from it by parents.
  static bool Descends(const Place* place, const Place* ancestor);
  // Puts the block among the candidates or takes it out, as its state now demands.
  void Refresh(Place* place);

  uint64_t next_tick_ = 1;
  size_t size_ = 0;
  size_t held_ = 0;
  absl::node_hash_map<BlockKey, Place> places_;  // Of the members, and of the parents they name.
  std::vector<Candidates> candidates_;           // By queue.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_LRU_LEAVES_H_
