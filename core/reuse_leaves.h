// ReuseLeaves picks the block of one tier whose room is worth the least: of those without
// a child there, the one least likely to be used soon for the time that it has waited, as
// ReuseHazards learns it. Where capacity is scarce that keeps conversations that go on and
// lets go of those that have ended, nearly twice the hits of LRU; where it is ample, or
// nothing is to be learnt, it is LRU.
//
// A block is judged by how often it was used and, before its first use here, by how often
// the prefix was that it continues. It is remembered for a while after it left: when it
// comes back that is a use, too.
//
// Pure bookkeeping: no I/O, no clock (time is the number of uses), no threads. Executor
// thread only. Memory: 100 bytes a block of the tier and 80 for each that left lately.
#ifndef KVTIER_CORE_REUSE_LEAVES_H_
#define KVTIER_CORE_REUSE_LEAVES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/arrival.h"
#include "core/block_key.h"
#include "core/lru_leaves.h"
#include "core/reuse_hazards.h"

namespace kvtier {

// Blocks that left and are remembered: four times a pool of 16,384.
inline constexpr size_t kMaxDeparted = 65'536;

class ReuseLeaves {
 public:
  ReuseLeaves();

  // As LruLeaves has them, of which the members are one.
  void Insert(const BlockKey& key, const std::optional<BlockKey>& parent, Arrival arrival);
  void Touch(const BlockKey& key);
  void Erase(const BlockKey& key);
  void Hold(const BlockKey& key) { leaves_.Hold(key); }
  void Unhold(const BlockKey& key) { leaves_.Unhold(key); }
  bool Contains(const BlockKey& key) const { return leaves_.Contains(key); }
  size_t size() const { return leaves_.size(); }
  size_t held() const { return leaves_.held(); }
  // Behind the one that brought it, those before it left lately included. REQUIRES: member.
  uint32_t UsesOf(const BlockKey& key) const { return members_.at(key).uses; }
  // The tick of its last use, or of its coming. REQUIRES: member.
  uint64_t LastUseOf(const BlockKey& key) const { return members_.at(key).last; }
  bool IsCandidate(const BlockKey& key) const { return leaves_.IsCandidate(key); }
  size_t departed() const { return departed_.size(); }

  // The candidate whose room is worth the least; nullopt: everything is held or the tier is
  // empty.
  std::optional<BlockKey> Victim() const;
  // The one worth least for which `accept` is true, looking at `limit` at most.
  template <typename Accept>
  std::optional<BlockKey> VictimWhere(size_t limit, Accept accept) const {
    Cursors cursors = AtColdest();
    for (; limit > 0; --limit) {
      const std::optional<size_t> queue = Cheapest(cursors);
      if (!queue) return std::nullopt;
      const BlockKey& key = cursors[*queue]->second->key();
      if (accept(key)) return key;
      ++cursors[*queue];
    }
    return std::nullopt;
  }
  // The `count` that would leave one after the other, in this order: a parent behind its last
  // child. One for which `accept` is false stays, and so do those above it; looks at `limit`
  // at most.
  template <typename Accept>
  std::vector<BlockKey> VictimsWhere(size_t count, size_t limit, Accept accept) const {
    std::vector<BlockKey> victims;
    std::vector<BlockKey> bared;  // Parents whose last child is among the victims.
    Cursors cursors = AtColdest();
    for (; limit > 0 && victims.size() < count; --limit) {
      const std::optional<BlockKey> key = TakeCheapest(&cursors, &bared);
      if (!key) break;
      if (!accept(*key)) continue;
      victims.push_back(*key);
      if (const auto parent = leaves_.CandidateWithout(victims)) bared.push_back(*parent);
    }
    return victims;
  }
  // Aborts when an invariant does not hold; O(n).
  void Audit() const;

 private:
  // Uses of the block: 0 and then the prefix's of 0, 1, 2-3, 4 and more; 1, 2-3, 4 and more.
  static constexpr size_t kClasses = 7;
  using Cursors = std::array<LruLeaves::Candidates::const_iterator, kClasses>;

  struct Seen {
    uint64_t last = 0;         // The tick of its last use.
    uint32_t uses = 0;         // Behind the first, which brought it here.
    uint32_t prefix_uses = 0;  // Of what it continued when it was new.
    bool touch_to_come = false;
  };
  static size_t ClassOf(const Seen& seen);
  // One key in eight is learnt from: blocks of a prefix come in runs with one fate.
  static bool IsSample(const BlockKey& key);
  void Use(const BlockKey& key, Seen* seen);
  void Depart(const BlockKey& key, const Seen& seen);
  Cursors AtColdest() const;
  std::optional<size_t> Cheapest(const Cursors& cursors) const;
  // What it is worth, and of two alike the one whose last use is older goes first.
  std::pair<double, uint64_t> RankOf(const BlockKey& key) const;
  // The cheapest of the cursors' and of `bared`, which is taken out of them.
  std::optional<BlockKey> TakeCheapest(Cursors* cursors, std::vector<BlockKey>* bared) const;

  uint64_t now_ = 0;
  LruLeaves leaves_;  // A queue a class.
  ReuseHazards hazards_;
  absl::flat_hash_map<BlockKey, Seen> members_;
  absl::flat_hash_map<BlockKey, Seen> departed_;
  // Who left, in order; of a block that came back, what it says is over.
  struct Departure {
    BlockKey key;
    uint64_t last = 0;
  };
  std::deque<Departure> departures_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_LEAVES_H_
