#include "bench/policy/w_tiny_lfu_cache.h"

#include <algorithm>

namespace kvtier::bench {
namespace {

// Shares in the paper and in Caffeine, in percent: of the cache, and of its main part.
constexpr size_t kWindowPercent = 1;
constexpr size_t kProtectedPercent = 80;

}  // namespace

WTinyLfuCache::WTinyLfuCache(size_t blocks_of_trace, size_t capacity)
    : FlatCache(blocks_of_trace, capacity, FlatOrder::kTailFirst),
      window_capacity_(std::max<size_t>(capacity * kWindowPercent / 100, 1)),
      protected_capacity_((capacity - window_capacity_) * kProtectedPercent / 100),
      frequency_(capacity),
      window_(blocks_of_trace),
      probation_(blocks_of_trace),
      protected_(blocks_of_trace) {}

void WTinyLfuCache::Use(uint32_t block) {
  frequency_.Count(block);
  if (window_.Contains(block)) {
    window_.MoveToNewest(block);
  } else if (protected_.Contains(block)) {
    protected_.MoveToNewest(block);
  } else {
    Protect(block);
  }
}

void WTinyLfuCache::Protect(uint32_t block) {
  probation_.Remove(block);
  protected_.PushNewest(block);
  if (protected_.size() > protected_capacity_) probation_.PushNewest(protected_.PopOldest());
}

void WTinyLfuCache::Insert(uint32_t block) {
  frequency_.Count(block);
  if (window_.size() == window_capacity_) {
    if (size() == capacity()) {
      Contest();
    } else {
      probation_.PushNewest(window_.PopOldest());
    }
  }
  window_.PushNewest(block);
  Enter(block);
}

void WTinyLfuCache::Contest() {
  const uint32_t candidate = window_.PopOldest();
  BlockList& main = probation_.empty() ? protected_ : probation_;
  // A cache of one block is only a window.
  if (main.empty() || frequency_.EstimateOf(candidate) <= frequency_.EstimateOf(main.Oldest())) {
    Leave(candidate);
    return;
  }
  Leave(main.PopOldest());
  probation_.PushNewest(candidate);
}

}  // namespace kvtier::bench
