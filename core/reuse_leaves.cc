#include "core/reuse_leaves.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace kvtier {
namespace {

// 0, 1, 2-3, 4 and more.
size_t BucketOf(uint32_t uses) {
  if (uses < 2) return uses;
  return uses < 4 ? 2 : 3;
}

}  // namespace

ReuseLeaves::ReuseLeaves() : leaves_(kClasses), hazards_(kClasses) {}

size_t ReuseLeaves::ClassOf(const Seen& seen) {
  return seen.uses == 0 ? BucketOf(seen.prefix_uses) : 3 + BucketOf(seen.uses);
}

bool ReuseLeaves::IsSample(const BlockKey& key) { return (key.lo & 7) == 0; }

void ReuseLeaves::Use(const BlockKey& key, Seen* seen) {
  if (IsSample(key)) hazards_.Learn(ClassOf(*seen), now_ - seen->last, true);
  if (seen->uses < std::numeric_limits<uint16_t>::max()) ++seen->uses;
}

void ReuseLeaves::Insert(const BlockKey& key, const std::optional<BlockKey>& parent,
                         Arrival arrival) {
  ++now_;
  Seen seen;
  if (const auto back = departed_.find(key); back != departed_.end()) {
    seen = back->second;
    departed_.erase(back);
    Use(key, &seen);
  } else if (const auto above = parent ? members_.find(*parent) : members_.end();
             above != members_.end()) {
    seen.prefix_uses = above->second.prefix_uses + above->second.uses;
  }
  seen.last = now_;
  seen.touch_to_come = arrival == Arrival::kAskedFor;
  leaves_.Insert(key, parent, ClassOf(seen));
  KVT_CHECK(members_.emplace(key, seen).second);
}

void ReuseLeaves::Touch(const BlockKey& key) {
  const auto member = members_.find(key);
  if (member == members_.end()) return;
  ++now_;
  Seen& seen = member->second;
  if (!seen.touch_to_come) Use(key, &seen);
  seen.touch_to_come = false;
  seen.last = now_;
  leaves_.Touch(key, ClassOf(seen));
}

void ReuseLeaves::Erase(const BlockKey& key) {
  leaves_.Erase(key);
  const auto member = members_.find(key);
  Depart(key, member->second);
  members_.erase(member);
}

void ReuseLeaves::Depart(const BlockKey& key, const Seen& seen) {
  departed_[key] = seen;
  departures_.push_back({.key = key, .last = seen.last});
  if (departures_.size() <= kMaxDeparted) return;
  const Departure oldest = departures_.front();
  departures_.pop_front();
  const auto gone = departed_.find(oldest.key);
  if (gone == departed_.end() || gone->second.last != oldest.last) return;
  if (IsSample(oldest.key)) hazards_.Learn(ClassOf(gone->second), now_ - oldest.last, false);
  departed_.erase(gone);
}

ReuseLeaves::Cursors ReuseLeaves::AtColdest() const {
  Cursors cursors;
  for (size_t queue = 0; queue < kClasses; ++queue) {
    cursors[queue] = leaves_.candidates(queue).begin();
  }
  return cursors;
}

// In a queue who waited longest is taken for the one worth least, which is nearly always so.
std::optional<size_t> ReuseLeaves::Cheapest(const Cursors& cursors) const {
  std::optional<size_t> cheapest;
  std::pair<double, uint64_t> least = {std::numeric_limits<double>::infinity(), 0};
  for (size_t queue = 0; queue < kClasses; ++queue) {
    if (cursors[queue] == leaves_.candidates(queue).end()) continue;
    const std::pair<double, uint64_t> rank = RankOf(cursors[queue]->second->key());
    if (rank > least) continue;
    cheapest = queue;
    least = rank;
  }
  return cheapest;
}

std::pair<double, uint64_t> ReuseLeaves::RankOf(const BlockKey& key) const {
  const Seen& seen = members_.at(key);
  return {hazards_.Worth(ClassOf(seen), now_ - seen.last), seen.last};
}

std::optional<BlockKey> ReuseLeaves::TakeCheapest(Cursors* cursors,
                                                  std::vector<BlockKey>* bared) const {
  const std::optional<size_t> queue = Cheapest(*cursors);
  const auto parent =
      std::ranges::min_element(*bared, {}, [this](const BlockKey& key) { return RankOf(key); });
  if (parent != bared->end() &&
      (!queue || RankOf(*parent) < RankOf((*cursors)[*queue]->second->key()))) {
    const BlockKey key = *parent;
    bared->erase(parent);
    return key;
  }
  if (!queue) return std::nullopt;
  return ((*cursors)[*queue]++)->second->key();
}

std::optional<BlockKey> ReuseLeaves::Victim() const {
  return VictimWhere(1, [](const BlockKey&) { return true; });
}

void ReuseLeaves::Audit() const {
  leaves_.Audit();
  KVT_CHECK(members_.size() == leaves_.size());
  for (const auto& [key, seen] : members_) {
    KVT_CHECK(leaves_.Contains(key) && leaves_.QueueOf(key) == ClassOf(seen));
    KVT_CHECK(seen.last <= now_);
  }
  KVT_CHECK(departed_.size() <= departures_.size() && departures_.size() <= kMaxDeparted);
}

}  // namespace kvtier
