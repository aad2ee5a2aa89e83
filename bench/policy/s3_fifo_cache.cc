#include "bench/policy/s3_fifo_cache.h"

#include <algorithm>

namespace kvtier::bench {
namespace {

// Constants of the paper.
constexpr size_t kSmallShare = 10;  // One in this many blocks is for the small queue.
constexpr uint8_t kMaxUses = 3;
constexpr uint8_t kUsesToPromote = 2;

}  // namespace

S3FifoCache::S3FifoCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kTailFirst),
      small_capacity_(std::max<size_t>(capacity / kSmallShare, 1)),
      ghost_capacity_(capacity - small_capacity_),
      small_(blocks_of_trace),
      main_(blocks_of_trace),
      ghosts_(blocks_of_trace),
      uses_(blocks_of_trace, 0) {}

void S3FifoCache::Use(uint32_t block) {
  uses_[block] = std::min<uint8_t>(uses_[block] + 1, kMaxUses);
}

void S3FifoCache::Insert(uint32_t block) {
  if (size() == capacity()) Evict();
  uses_[block] = 0;
  if (ghosts_.Contains(block)) {
    ghosts_.Remove(block);
    main_.PushNewest(block);
  } else {
    small_.PushNewest(block);
  }
  Enter(block);
}

void S3FifoCache::Evict() {
  if (small_.size() >= small_capacity_ && EvictFromSmall()) return;
  EvictFromMain();
}

bool S3FifoCache::EvictFromSmall() {
  while (!small_.empty()) {
    const uint32_t oldest = small_.PopOldest();
    if (uses_[oldest] < kUsesToPromote) {
      Leave(oldest);
      Remember(oldest);
      return true;
    }
    uses_[oldest] = 0;
    main_.PushNewest(oldest);
  }
  return false;
}

void S3FifoCache::EvictFromMain() {
  while (uses_[main_.Oldest()] > 0) {
    --uses_[main_.Oldest()];
    main_.MoveToNewest(main_.Oldest());
  }
  Leave(main_.PopOldest());
}

void S3FifoCache::Remember(uint32_t block) {
  if (ghost_capacity_ == 0) return;
  if (ghosts_.size() == ghost_capacity_) ghosts_.PopOldest();
  ghosts_.PushNewest(block);
}

}  // namespace kvtier::bench
