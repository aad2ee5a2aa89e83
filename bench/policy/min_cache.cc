#include "bench/policy/min_cache.h"

#include <limits>

namespace kvtier::bench {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

}  // namespace

MinCache::MinCache(const Trace& trace, size_t capacity)
    : ReplayedCache(trace.parents.size(), capacity),
      next_use_(trace.requests.size()),
      held_for_(trace.requests.size()) {
  std::vector<uint32_t> following(trace.parents.size(), kNever);
  for (auto i = static_cast<uint32_t>(trace.requests.size()); i-- > 0;) {
    for (const uint32_t block : trace.requests[i].blocks) {
      next_use_[i].push_back(following[block]);
      following[block] = i;
    }
  }
}

void MinCache::TakeIn(const TraceRequest& request) {
  held_for_[now_].clear();
  // The tail is visited first. Blocks kept for one request by several others are then in order of
  // depth. Each of these others shares less of that request's prefix than the previous one;
  // otherwise the tail of what it shares would be kept for the other.
  for (size_t i = request.blocks.size(); i-- > 0;) {
    const uint32_t block = request.blocks[i];
    const uint32_t next = next_use_[now_][i];
    if (next == kNever) {
      if (Contains(block)) {
        Leave(block);
      } else {
        Refuse(block);
      }
      continue;
    }
    if (held_for_[next].empty()) used_by_.push(next);
    held_for_[next].push_back(block);
    if (!Contains(block)) Enter(block);
  }
  while (size() > capacity()) EvictFurthest();
  ++now_;
}

void MinCache::EvictFurthest() {
  while (held_for_[used_by_.top()].empty()) used_by_.pop();
  std::deque<uint32_t>& furthest = held_for_[used_by_.top()];
  Leave(furthest.front());
  furthest.pop_front();
}

}  // namespace kvtier::bench
