#include "bench/policy/lru_cache.h"

namespace kvtier::bench {

LruCache::LruCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kTailFirst), blocks_(blocks_of_trace) {}

void LruCache::Use(uint32_t block) { blocks_.MoveToNewest(block); }

void LruCache::Insert(uint32_t block) {
  if (size() == capacity()) Leave(blocks_.PopOldest());
  blocks_.PushNewest(block);
  Enter(block);
}

}  // namespace kvtier::bench
