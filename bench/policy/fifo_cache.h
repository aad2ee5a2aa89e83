// FifoCache evicts the block that was inserted first, whether or not it was used since.
#ifndef KVTIER_BENCH_POLICY_FIFO_CACHE_H_
#define KVTIER_BENCH_POLICY_FIFO_CACHE_H_

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"

namespace kvtier::bench {

class FifoCache : public FlatCache {
 public:
  FifoCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t) override {}
  void Insert(uint32_t block) override;

 private:
  BlockList blocks_;  // Blocks in order of arrival.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_FIFO_CACHE_H_
