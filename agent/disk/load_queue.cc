#include "agent/disk/load_queue.h"

#include "core/check.h"

namespace kvtier {

void LoadQueue::Push(QueuedLoad load) {
  const bool foreground = load.urgency == Urgency::kForeground;
  load.wanted_anyway = !foreground;
  std::list<QueuedLoad>& line = foreground ? foreground_ : prefetch_;
  line.push_back(load);
  if (!foreground) KVT_CHECK(prefetch_at_.emplace(load.key, std::prev(line.end())).second);
}

bool LoadQueue::Hasten(const BlockKey& key) {
  const auto found = prefetch_at_.find(key);
  if (found == prefetch_at_.end()) return false;
  found->second->urgency = Urgency::kForeground;
  foreground_.splice(foreground_.end(), prefetch_, found->second);
  prefetch_at_.erase(found);
  return true;
}

QueuedLoad LoadQueue::Pop() {
  KVT_CHECK(!empty());
  std::list<QueuedLoad>& line = foreground_.empty() ? prefetch_ : foreground_;
  const QueuedLoad next = line.front();
  line.pop_front();
  if (next.urgency == Urgency::kPrefetch) prefetch_at_.erase(next.key);
  return next;
}

}  // namespace kvtier
