// FlatCache is a cache whose policy knows no tree: it uses or inserts each block by itself, as
// policies for independent objects do.
#ifndef KVTIER_BENCH_POLICY_FLAT_CACHE_H_
#define KVTIER_BENCH_POLICY_FLAT_CACHE_H_

#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

// Order in which a request visits its blocks. Each policy has the order that published results use
// for it. SIEVE, which has no such results, has the order that gives it more hits.
enum class FlatOrder : uint8_t {
  // A request makes one pass from its last block to the root. A policy that prefers recent blocks
  // then keeps the heads of prefixes longer than their tails.
  kTailFirst,
  // Held blocks are used from the last to the root, then missing ones are inserted from the root
  // on, as an engine computes them. Blocks for which the rest of the request leaves no room are
  // left out.
  kArrival,
};

class FlatCache : public ReplayedCache {
 public:
  FlatCache(size_t blocks_of_trace, size_t capacity, FlatOrder order)
      : ReplayedCache(blocks_of_trace, capacity), order_(order) {}

 protected:
  void TakeIn(const TraceRequest& request) final;
  // Notes a use of `block`, which is held.
  virtual void Use(uint32_t block) = 0;
  // Inserts `block`, which is not held, in place of another one if the cache is full.
  virtual void Insert(uint32_t block) = 0;

 private:
  const FlatOrder order_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_FLAT_CACHE_H_
