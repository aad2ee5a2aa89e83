#include "bench/policy/arc_cache.h"

#include <algorithm>

namespace kvtier::bench {
namespace {

double Ratio(const BlockList& a, const BlockList& b) {
  return static_cast<double>(a.size()) / static_cast<double>(b.size());
}

}  // namespace

ArcCache::ArcCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kTailFirst),
      once_(blocks_of_trace),
      again_(blocks_of_trace),
      evicted_once_(blocks_of_trace),
      evicted_again_(blocks_of_trace) {}

void ArcCache::Use(uint32_t block) {
  if (again_.Contains(block)) {
    again_.MoveToNewest(block);
  } else {
    once_.Remove(block);
    again_.PushNewest(block);
  }
}

void ArcCache::Insert(uint32_t block) {
  const auto most = static_cast<double>(capacity());
  if (evicted_once_.Contains(block)) {
    once_share_ = std::min(most, once_share_ + std::max(1.0, Ratio(evicted_again_, evicted_once_)));
    Replace(block);
    evicted_once_.Remove(block);
    again_.PushNewest(block);
  } else if (evicted_again_.Contains(block)) {
    once_share_ = std::max(0.0, once_share_ - std::max(1.0, Ratio(evicted_once_, evicted_again_)));
    Replace(block);
    evicted_again_.Remove(block);
    again_.PushNewest(block);
  } else {
    MakeRoomForNew();
    once_.PushNewest(block);
  }
  Enter(block);
}

void ArcCache::MakeRoomForNew() {
  const size_t all_once = once_.size() + evicted_once_.size();
  const size_t all_again = again_.size() + evicted_again_.size();
  if (all_once == capacity()) {
    if (once_.size() == capacity()) {
      Leave(once_.PopOldest());
      return;
    }
    evicted_once_.PopOldest();
  } else if (all_once + all_again == 2 * capacity()) {
    evicted_again_.PopOldest();
  }
  if (size() == capacity()) Replace(kNoBlock);
}

void ArcCache::Replace(uint32_t block) {
  const auto once = static_cast<double>(once_.size());
  const bool is_over = once > once_share_ ||
                       (once == once_share_ && block != kNoBlock && evicted_again_.Contains(block));
  if (!once_.empty() && is_over) {
    evicted_once_.PushNewest(once_.Oldest());
    Leave(once_.PopOldest());
  } else {
    evicted_again_.PushNewest(again_.Oldest());
    Leave(again_.PopOldest());
  }
}

}  // namespace kvtier::bench
