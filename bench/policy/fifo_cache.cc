#include "bench/policy/fifo_cache.h"

namespace kvtier::bench {

FifoCache::FifoCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kArrival), blocks_(blocks_of_trace) {}

void FifoCache::Insert(uint32_t block) {
  if (size() == capacity()) Leave(blocks_.PopOldest());
  blocks_.PushNewest(block);
  Enter(block);
}

}  // namespace kvtier::bench
