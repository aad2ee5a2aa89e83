#include "bench/policy/flat_cache.h"

#include <span>

namespace kvtier::bench {

void FlatCache::TakeIn(const TraceRequest& request) {
  const std::span<const uint32_t> blocks = request.blocks;
  for (size_t i = blocks.size(); i-- > 0;) {
    if (Contains(blocks[i])) {
      Use(blocks[i]);
    } else if (order_ == FlatOrder::kTailFirst) {
      Insert(blocks[i]);
    }
  }
  for (size_t i = 0; i < blocks.size() && order_ == FlatOrder::kArrival; ++i) {
    if (Contains(blocks[i])) continue;
    if (i < capacity()) {
      Insert(blocks[i]);
    } else {
      Refuse(blocks[i]);
    }
  }
}

}  // namespace kvtier::bench
