// ReuseSample watches a sample of the blocks of one tier, those that left it and those it refused
// included. It teaches ReuseHazards from them, and it is the referee between the learnt order and
// LRU: two small caches of the sample alone, each as large a share of the tier as the sample is of
// all keys, are run beside it, one in each order. While LRU finds more, the tier follows LRU.
//
// A key is always in the sample or never: every key of a small tier, one in 2^n of a large one. In
// the small caches a block has no parent: the blocks of a request are used from its last to its
// first, so the last ones leave first there, too.
//
// Pure and deterministic. Executor thread only. Memory is fixed: some 1 MB.
#ifndef KVTIER_CORE_REUSE_SAMPLE_H_
#define KVTIER_CORE_REUSE_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/block_key.h"
#include "core/reuse_hazards.h"
#include "core/reuse_state.h"
#include "core/worth_queues.h"

namespace kvtier {

// Blocks that each small cache holds at most.
inline constexpr size_t kMaxSampledBlocks = 2048;
// Blocks that are watched: those of a small cache, and as many again at least that left it.
inline constexpr size_t kMaxWatchedBlocks = 5120;

class ReuseSample {
 public:
  // Does not own `hazards`.
  explicit ReuseSample(ReuseHazards* hazards) : hazards_(hazards), learnt_(hazards) {}

  // Notes that a block was asked for: it was used, brought or refused room. `state` is its state
  // after that; `members` is the number of blocks in the tier.
  void Asked(const BlockKey& key, const ReuseState& state, Moment now, size_t members) {
    if (IsSampled(key)) SampledAsked(key, state, now, members);
  }
  // Prefetches the cache lines that Asked() of the block reads first.
  void PrefetchCacheLines(const BlockKey& key) const {
    if (IsSampled(key)) watched_.prefetch(key);
  }
  // Notes that the state of a block changed, and that it was not asked for.
  void Changed(const BlockKey& key, const ReuseState& state);
  // Notes that the tier is full with `members` blocks: from now on the small caches hold no more
  // than their share of that.
  void Full(size_t members);

  // Returns whether the learnt order finds as much as LRU, lately.
  bool learnt_leads() const { return learnt_leads_; }
  // Counts of sampled blocks found in each small cache, and asked for; old ones fade.
  struct Score {
    double learnt = 0;
    double lru = 0;
    double asked = 0;
  };
  const Score& score() const { return score_; }
  size_t watched() const { return watched_.size(); }
  // Aborts when an invariant does not hold; O(watched).
  void Audit() const;

 private:
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Watched {
    BlockKey key;
    ReuseState state;
    Moment last = 0;
    uint32_t queue = 0;  // Number of its queue in `learnt_`.
    // Neighbours in the order of use.
    uint32_t older = kNone;
    uint32_t newer = kNone;
    bool in_learnt = false;
    bool in_lru = false;
  };
  bool IsSampled(const BlockKey& key) const {
    return (key.hi & ((uint64_t{1} << shift_) - 1)) == 0;
  }
  void SampledAsked(const BlockKey& key, const ReuseState& state, Moment now, size_t members);
  // Halves the sample until its share of `members` fits.
  void Fit(size_t members);
  // Adds a block that was asked for to the score; `watched` is the block before that use.
  void Count(const Watched& watched);
  // Takes the block out of the order of use, and out of the small cache of LRU.
  void Unlink(uint32_t number);
  // Makes the block the newest, in the small cache of LRU, too.
  void LinkNewest(uint32_t number);
  void PutIntoLearnt(uint32_t number, Moment now);
  uint32_t QueueFor(const ReuseState& state);
  // Stops watching the block, with the lesson that it was not used until `now`.
  void Drop(uint32_t number, Moment now);
  // Stops watching the block, without a lesson.
  void Forget(uint32_t number);
  void ConcludeIfDue(Moment now);

  ReuseHazards* const hazards_;   // Not owned.
  uint32_t shift_ = 0;            // One key in 2^shift_ is sampled.
  size_t capacity_ = ~size_t{0};  // Blocks of each small cache; unlimited until the tier was full.
  std::vector<Watched> slots_;
  std::vector<uint32_t> free_;
  absl::flat_hash_map<BlockKey, uint32_t> watched_;
  // List of all watched blocks in the order of use. Blocks from `oldest_in_lru_` on are the small
  // cache of LRU.
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  uint32_t oldest_in_lru_ = kNone;
  size_t in_lru_ = 0;
  WorthQueues learnt_;
  Score score_;
  bool learnt_leads_ = true;
  static constexpr double kConclusionsAtOnce = 10;
  double credit_ = kConclusionsAtOnce;  // Conclusions that may be drawn, at `credited_`.
  Moment credited_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_REUSE_SAMPLE_H_
