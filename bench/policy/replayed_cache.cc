#include "bench/policy/replayed_cache.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier::bench {

ReplayedCache::ReplayedCache(size_t blocks_of_trace, size_t capacity)
    : capacity_(capacity), held_(blocks_of_trace, false) {
  KVT_CHECK(capacity > 0);
}

size_t ReplayedCache::Request(const TraceRequest& request) {
  size_t hits = 0;
  while (hits < request.blocks.size() && Contains(request.blocks[hits])) ++hits;
  missing_.clear();
  for (const uint32_t block : request.blocks) {
    if (!Contains(block)) missing_.push_back(block);
  }
  left_.clear();
  TakeIn(request);
  KVT_CHECK(size_ <= capacity_);
  insertions_ += static_cast<uint64_t>(
      std::ranges::count_if(missing_, [this](uint32_t block) { return Contains(block); }));
  // A block may leave and come back within one request.
  std::erase_if(left_, [this](uint32_t block) { return Contains(block); });
  return hits;
}

void ReplayedCache::Enter(uint32_t block) {
  KVT_CHECK(!held_[block]);
  held_[block] = true;
  ++size_;
}

void ReplayedCache::Leave(uint32_t block) {
  KVT_CHECK(held_[block]);
  held_[block] = false;
  --size_;
  left_.push_back(block);
}

void ReplayedCache::Refuse(uint32_t block) {
  KVT_CHECK(!held_[block]);
  left_.push_back(block);
}

}  // namespace kvtier::bench
