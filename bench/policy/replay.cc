#include "bench/policy/replay.h"

#include <algorithm>

namespace kvtier::bench {

ReplayedHits Replay(const Trace& trace, ReplayedCache* cache) {
  ReplayedHits hits;
  for (const TraceRequest& request : trace.requests) {
    hits.tokens += request.tokens;
    // A partial last block has fewer tokens than a block.
    hits.hit_tokens += std::min(kTokensPerBlock * cache->Request(request), request.tokens);
  }
  hits.insertions = cache->insertions();
  return hits;
}

}  // namespace kvtier::bench
