// WTinyLfuCache is W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 2017) as in
// the Caffeine library: new blocks enter a small LRU window. A block that leaves the window
// replaces the main part's victim only if it was used more often lately. The main part is a
// segmented LRU: blocks on probation, and protected ones that were used there.
#ifndef KVTIER_BENCH_POLICY_W_TINY_LFU_CACHE_H_
#define KVTIER_BENCH_POLICY_W_TINY_LFU_CACHE_H_

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"
#include "bench/policy/frequency_sketch.h"

namespace kvtier::bench {

class WTinyLfuCache : public FlatCache {
 public:
  WTinyLfuCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t block) override;
  void Insert(uint32_t block) override;

 private:
  void Protect(uint32_t block);
  // Evicts the window's oldest block or the main part's victim, and keeps the more frequent one.
  void Contest();

  const size_t window_capacity_;
  const size_t protected_capacity_;
  FrequencySketch frequency_;
  BlockList window_;
  BlockList probation_;
  BlockList protected_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_W_TINY_LFU_CACHE_H_
