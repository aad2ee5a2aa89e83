// LruCache evicts the least recently used block.
//
// With FlatCache's order of use, no block is older than its descendants, so this is also LRU over
// the leaves of the tree of prefixes.
#ifndef KVTIER_BENCH_POLICY_LRU_CACHE_H_
#define KVTIER_BENCH_POLICY_LRU_CACHE_H_

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"

namespace kvtier::bench {

class LruCache : public FlatCache {
 public:
  LruCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t block) override;
  void Insert(uint32_t block) override;

 private:
  BlockList blocks_;  // Blocks in order of use.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_LRU_CACHE_H_
