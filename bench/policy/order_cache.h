// OrderCache is a tier with the order of eviction that kvtier uses: the blocks of a request are
// held while its missing ones come in, and the order names a victim for each.
#ifndef KVTIER_BENCH_POLICY_ORDER_CACHE_H_
#define KVTIER_BENCH_POLICY_ORDER_CACHE_H_

#include "bench/policy/replayed_cache.h"
#include "core/reuse_leaves.h"

namespace kvtier::bench {

class OrderCache : public ReplayedCache {
 public:
  using ReplayedCache::ReplayedCache;

 protected:
  void TakeIn(const TraceRequest& request) override;

 private:
  ReuseLeaves order_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_ORDER_CACHE_H_
