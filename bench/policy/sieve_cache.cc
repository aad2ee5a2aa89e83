#include "bench/policy/sieve_cache.h"

namespace kvtier::bench {

SieveCache::SieveCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kArrival),
      blocks_(blocks_of_trace),
      was_used_(blocks_of_trace, false) {}

void SieveCache::Insert(uint32_t block) {
  if (size() == capacity()) Evict();
  was_used_[block] = false;
  blocks_.PushNewest(block);
  Enter(block);
}

void SieveCache::Evict() {
  if (hand_ == kNoBlock) hand_ = blocks_.Oldest();
  while (was_used_[hand_]) {
    was_used_[hand_] = false;
    hand_ = blocks_.NewerThan(hand_);
    if (hand_ == kNoBlock) hand_ = blocks_.Oldest();
  }
  const uint32_t victim = hand_;
  hand_ = blocks_.NewerThan(victim);
  blocks_.Remove(victim);
  Leave(victim);
}

}  // namespace kvtier::bench
