// S3FifoCache is S3-FIFO (Yang, Zhang, Qiu, Yue and Vigfusson, SOSP 2023): three FIFO queues. New
// blocks enter a small one, and only those used more than once there move to the main queue. The
// ghost queue remembers those that did not: when they come back, they enter the main queue.
#ifndef KVTIER_BENCH_POLICY_S3_FIFO_CACHE_H_
#define KVTIER_BENCH_POLICY_S3_FIFO_CACHE_H_

#include <vector>

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"

namespace kvtier::bench {

class S3FifoCache : public FlatCache {
 public:
  S3FifoCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t block) override;
  void Insert(uint32_t block) override;

 private:
  // Evicts one block. REQUIRES: the cache is full.
  void Evict();
  // Moves used blocks to the main queue until one is evicted or none is left. Returns whether one
  // was evicted.
  bool EvictFromSmall();
  void EvictFromMain();
  void Remember(uint32_t block);

  const size_t small_capacity_;
  const size_t ghost_capacity_;
  BlockList small_;
  BlockList main_;
  BlockList ghosts_;           // Blocks that left lately; they are not held.
  std::vector<uint8_t> uses_;  // Uses by block, since it entered its queue; saturates at kMaxUses.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_S3_FIFO_CACHE_H_
