// Replays a whole trace through a cache and counts what it was worth.
#ifndef KVTIER_BENCH_POLICY_REPLAY_H_
#define KVTIER_BENCH_POLICY_REPLAY_H_

#include <cstdint>

#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

struct ReplayedHits {
  uint64_t tokens = 0;      // Tokens of all prompts.
  uint64_t hit_tokens = 0;  // Tokens of the prefixes that the cache had.
  uint64_t insertions = 0;  // Blocks taken in.

  double HitPercent() const {
    return tokens == 0 ? 0 : 100 * static_cast<double>(hit_tokens) / static_cast<double>(tokens);
  }
};

// REQUIRES: `cache` is empty and was made for `trace`.
ReplayedHits Replay(const Trace& trace, ReplayedCache* cache);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_REPLAY_H_
