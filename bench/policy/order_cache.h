// OrderCache is a tier with the order of eviction that kvtier uses: the blocks of a request are
// held while its missing ones come in, and the order names a victim for each or refuses it.
#ifndef KVTIER_BENCH_POLICY_ORDER_CACHE_H_
#define KVTIER_BENCH_POLICY_ORDER_CACHE_H_

#include "bench/policy/replayed_cache.h"
#include "core/eviction_order.h"

namespace kvtier::bench {

class OrderCache : public ReplayedCache {
 public:
  // Which of the blocks that come when it is full are taken in.
  enum class Admitted : uint8_t {
    kWorthIt,  // Those that the order finds worth the room of its victim.
    kAll,      // All, as host memory does above a disk.
  };
  OrderCache(size_t blocks_of_trace, size_t capacity, EvictionPolicy policy,
             Admitted admitted = Admitted::kWorthIt)
      : ReplayedCache(blocks_of_trace, capacity), admitted_(admitted), order_(policy) {}

 protected:
  void TakeIn(const TraceRequest& request) override;

 private:
  const Admitted admitted_;
  EvictionOrder order_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_ORDER_CACHE_H_
