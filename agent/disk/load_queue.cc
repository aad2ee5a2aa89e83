#include "agent/disk/load_queue.h"

#include "core/check.h"

namespace kvtier {

namespace {

size_t PartyOf(DomainId domain) { return static_cast<size_t>(domain); }

}  // namespace

void LoadQueue::Push(QueuedLoad load) {
  const size_t party = PartyOf(load.payer());
  load.wanted_anyway = load.urgency == Urgency::kPrefetch;
  if (!load.wanted_anyway) {
    foreground_.Push(party, load.bytes, load);
    return;
  }
  const auto place = prefetch_.Push(party, load.bytes, load);
  KVT_CHECK(prefetch_at_.emplace(load.key, Prefetch{load.payer(), place}).second);
}

bool LoadQueue::MoveToForeground(const BlockKey& key) {
  const auto found = prefetch_at_.find(key);
  if (found == prefetch_at_.end()) return false;
  const size_t party = PartyOf(found->second.payer);
  QueuedLoad load = prefetch_.Remove(party, found->second.place);
  prefetch_at_.erase(found);
  load.urgency = Urgency::kForeground;
  foreground_.Push(party, load.bytes, load);
  return true;
}

QueuedLoad LoadQueue::Pop() {
  KVT_CHECK(!empty());
  if (!foreground_.empty()) return foreground_.Pop();
  const QueuedLoad next = prefetch_.Pop();
  prefetch_at_.erase(next.key);
  return next;
}

}  // namespace kvtier
