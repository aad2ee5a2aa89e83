// Replays a whole trace through a cache and counts the cost that it saved.
#ifndef KVTIER_BENCH_POLICY_REPLAY_H_
#define KVTIER_BENCH_POLICY_REPLAY_H_

#include <cstdint>

#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

struct ReplayedHits {
  uint64_t tokens = 0;      // Tokens of all prompts.
  uint64_t hit_tokens = 0;  // Tokens of the prefixes that the cache had.
  double cost = 0;          // Cost of computing all prompts, in tokens at the start of a prompt.
  double hit_cost = 0;      // Cost of computing the prefixes that the cache had.
  uint64_t insertions = 0;  // Number of blocks inserted.

  double HitPercent() const {
    return tokens == 0 ? 0 : 100 * static_cast<double>(hit_tokens) / static_cast<double>(tokens);
  }
  double SavedPercent() const { return cost == 0 ? 0 : 100 * hit_cost / cost; }
};

// Replays the trace. Attention costs as much as everything else at `attention_tokens` tokens; 0: a
// token costs the same anywhere. REQUIRES: `cache` is empty and was made for `trace`.
ReplayedHits Replay(const Trace& trace, ReplayedCache* cache, uint32_t attention_tokens = 0);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_REPLAY_H_
