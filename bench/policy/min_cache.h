// MinCache is the exact offline bound. It knows the rest of the trace, keeps the blocks whose next
// use comes first, and inserts no block whose next use comes later than those of all held blocks
// (Belady 1966, with bypass). A block is never used before its parent, so of the blocks that one
// request will use next, the deepest is evicted first, and no policy hits more blocks.
#ifndef KVTIER_BENCH_POLICY_MIN_CACHE_H_
#define KVTIER_BENCH_POLICY_MIN_CACHE_H_

#include <deque>
#include <queue>
#include <vector>

#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

class MinCache : public ReplayedCache {
 public:
  // Makes an empty cache. Does not own `trace`, whose requests must come in their order.
  MinCache(const Trace& trace, size_t capacity);

 protected:
  void TakeIn(const TraceRequest& request) override;

 private:
  // Evicts the deepest block of the request that is furthest in the future.
  void EvictFurthest();

  uint32_t now_ = 0;  // Number of the current request.
  // Next request of each block, by request and position, or kNever.
  std::vector<std::vector<uint32_t>> next_use_;
  // Held blocks, by the request that uses them next, deepest first.
  std::vector<std::deque<uint32_t>> held_for_;
  std::priority_queue<uint32_t> used_by_;  // Requests with blocks in held_for_, and some past ones.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_MIN_CACHE_H_
