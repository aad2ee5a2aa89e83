// OrderCache is a tier with the order of eviction that kvtier uses: the blocks of a request are
// held while its missing ones come in, and the order names a victim for each or refuses it.
#ifndef KVTIER_BENCH_POLICY_ORDER_CACHE_H_
#define KVTIER_BENCH_POLICY_ORDER_CACHE_H_

#include "bench/policy/replayed_cache.h"
#include "core/eviction_order.h"

namespace kvtier::bench {

class OrderCache : public ReplayedCache {
 public:
  OrderCache(size_t blocks_of_trace, size_t capacity, EvictionPolicy policy)
      : ReplayedCache(blocks_of_trace, capacity), order_(policy) {}

 protected:
  void TakeIn(const TraceRequest& request) override;

 private:
  EvictionOrder order_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_ORDER_CACHE_H_
