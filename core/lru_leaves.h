// LruLeaves picks the coldest block of one tier that has no child there: plain
// LRU that never drops a parent before its child, because a prefix without its
// head is no hit at all.
//
// Members may stand in several queues, each by recency, for who picks among their coldest.
//
// Pure bookkeeping: no I/O, no clock (recency is the order of the calls), no
// threads. Executor thread only.
// Invariants, checked by Audit(): the candidates are exactly the members that are
// not held and have no member child; ticks are unique.
#ifndef KVTIER_CORE_LRU_LEAVES_H_
#define KVTIER_CORE_LRU_LEAVES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "core/block_key.h"

namespace kvtier {

class LruLeaves {
 public:
  using Candidates = absl::btree_map<uint64_t, BlockKey>;  // By tick.

  explicit LruLeaves(size_t queues = 1) : candidates_(queues) {}
  // Returns the number of one more queue.
  size_t AddQueue();
  // Adds `key` as the most recent. `parent` may be absent from the tier, may come
  // later, or be nullopt for a root. A parent that would close a cycle (an engine
  // that lies about its chain) is dropped: `key` is then a root, so that every
  // member stays evictable. REQUIRES: `key` is not a member; the queue exists.
  void Insert(const BlockKey& key, const std::optional<BlockKey>& parent, size_t queue = 0);
  // As Insert(), in queue 0, where it stood before: `tick` is what TickOf() gave before Erase().
  void InsertAt(const BlockKey& key, const std::optional<BlockKey>& parent, uint64_t tick);
  // Its place in the order of recency. REQUIRES: `key` is a member.
  uint64_t TickOf(const BlockKey& key) const { return members_.at(key).tick; }
  // The place of the most recent of all.
  uint64_t LastTick() const { return next_tick_ - 1; }
  // Makes `key` the most recent of `queue`. Returns its TickOf() before; nullopt: it is no
  // member, and ignored. Touch a prefix from its last block to its first, so that heads stay
  // warmer than tails.
  std::optional<uint64_t> Touch(const BlockKey& key, size_t queue = 0);
  // REQUIRES: `key` is a member and not held.
  void Erase(const BlockKey& key);
  // Held members (pinned, leased, in flight) are never victims. Counts nest.
  // REQUIRES: `key` is a member; Unhold() pairs with Hold().
  void Hold(const BlockKey& key);
  void Unhold(const BlockKey& key);

  bool Contains(const BlockKey& key) const { return members_.contains(key); }
  size_t size() const { return members_.size(); }
  size_t held() const { return held_; }
  size_t QueueOf(const BlockKey& key) const { return members_.at(key).queue; }
  // A member that is not held and has no member child. REQUIRES: `key` is a member.
  bool IsCandidate(const BlockKey& key) const { return members_.at(key).is_candidate; }
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
  struct Member {
    uint64_t tick = 0;
    std::optional<BlockKey> parent;
    uint32_t holds = 0;
    uint32_t queue : 31 = 0;
    bool is_candidate : 1 = false;  // It is in candidates_[queue].
  };
  void Add(const BlockKey& key, const std::optional<BlockKey>& parent, uint64_t tick, size_t queue);
  // True when `ancestor` is `key` or is reached from it by parents.
  bool Descends(const BlockKey& key, const BlockKey& ancestor) const;
  bool IsCandidate(const BlockKey& key, const Member& member) const;
  // Puts `key` among the candidates or takes it out, as its state now demands.
  void Refresh(const BlockKey& key, Member* member);

  uint64_t next_tick_ = 1;
  size_t held_ = 0;
  absl::flat_hash_map<BlockKey, Member> members_;
  absl::flat_hash_map<BlockKey, uint32_t> children_;  // Member children by parent key.
  std::vector<Candidates> candidates_;                // By queue.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_LRU_LEAVES_H_
