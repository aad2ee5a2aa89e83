#include "bench/policy/replay.h"

#include <algorithm>

namespace kvtier::bench {

ReplayedHits Replay(const Trace& trace, ReplayedCache* cache, uint32_t attention_tokens) {
  const double per_square = attention_tokens == 0 ? 0 : 0.5 / attention_tokens;
  const auto cost_of = [per_square](uint64_t tokens) {
    const auto count = static_cast<double>(tokens);
    return count + per_square * count * count;
  };
  ReplayedHits hits;
  for (const TraceRequest& request : trace.requests) {
    hits.tokens += request.tokens;
    // A partial last block has fewer tokens than a block.
    const uint64_t hit = std::min(kTokensPerBlock * cache->Request(request), request.tokens);
    hits.hit_tokens += hit;
    hits.cost += cost_of(request.tokens);
    hits.hit_cost += cost_of(hit);
  }
  hits.insertions = cache->insertions();
  return hits;
}

}  // namespace kvtier::bench
