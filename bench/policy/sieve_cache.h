// SieveCache is SIEVE (Zhang, Yang, Yue, Vigfusson and Rashmi, NSDI 2024): a FIFO queue in which a
// hand goes from old to new, clears the marks of blocks that were used, and evicts the first block
// without one. Survivors keep their place.
#ifndef KVTIER_BENCH_POLICY_SIEVE_CACHE_H_
#define KVTIER_BENCH_POLICY_SIEVE_CACHE_H_

#include <vector>

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"

namespace kvtier::bench {

class SieveCache : public FlatCache {
 public:
  SieveCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t block) override { was_used_[block] = true; }
  void Insert(uint32_t block) override;

 private:
  void Evict();

  BlockList blocks_;  // Blocks in order of arrival.
  std::vector<bool> was_used_;
  uint32_t hand_ = kNoBlock;  // kNoBlock: it starts at the oldest.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_SIEVE_CACHE_H_
