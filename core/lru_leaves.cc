#include "core/lru_leaves.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/check.h"

namespace kvtier {

bool LruLeaves::IsCandidate(const BlockKey& key, const Member& member) const {
  return member.holds == 0 && !children_.contains(key);
}

void LruLeaves::Refresh(const BlockKey& key, Member* member) {
  const bool was_candidate = member->is_candidate;
  member->is_candidate = IsCandidate(key, *member);
  if (member->is_candidate == was_candidate) return;
  if (member->is_candidate) {
    candidates_[member->queue].emplace(member->tick, key);
  } else {
    candidates_[member->queue].erase(member->tick);
  }
}

bool LruLeaves::Descends(const BlockKey& key, const BlockKey& ancestor) const {
  std::optional<BlockKey> at = key;
  while (at && *at != ancestor) {
    const auto member = members_.find(*at);
    if (member == members_.end()) return false;
    at = member->second.parent;
  }
  return at.has_value();
}

void LruLeaves::Insert(const BlockKey& key, const std::optional<BlockKey>& parent, size_t queue) {
  Add(key, parent, next_tick_++, queue);
}

void LruLeaves::InsertAt(const BlockKey& key, const std::optional<BlockKey>& parent,
                         uint64_t tick) {
  Add(key, parent, tick, 0);
}

void LruLeaves::Add(const BlockKey& key, const std::optional<BlockKey>& parent, uint64_t tick,
                    size_t queue) {
  KVT_CHECK(tick < next_tick_ && queue < candidates_.size());
  // Only a key that already has children can close a cycle; the rest skip the walk.
  const bool closes_cycle =
      parent && (*parent == key || (children_.contains(key) && Descends(*parent, key)));
  Member added{.tick = tick, .queue = static_cast<uint32_t>(queue)};
  if (parent && !closes_cycle) added.parent = parent;
  const auto [member, inserted] = members_.emplace(key, added);
  KVT_CHECK(inserted);
  Refresh(key, &member->second);
  if (!added.parent) return;
  ++children_[*added.parent];
  if (const auto at = members_.find(*added.parent); at != members_.end()) {
    Refresh(at->first, &at->second);
  }
}

std::optional<uint64_t> LruLeaves::Touch(const BlockKey& key, size_t queue) {
  KVT_CHECK(queue < candidates_.size());
  const auto found = members_.find(key);
  if (found == members_.end()) return std::nullopt;
  Member& member = found->second;
  // Most are none: they are held, or lie under another of their prefix.
  if (member.is_candidate) candidates_[member.queue].erase(member.tick);
  const uint64_t before = std::exchange(member.tick, next_tick_++);
  member.queue = static_cast<uint32_t>(queue);
  if (member.is_candidate) candidates_[queue].emplace(member.tick, key);
  return before;
}

void LruLeaves::Erase(const BlockKey& key) {
  const auto member = members_.find(key);
  KVT_CHECK(member != members_.end());
  KVT_CHECK(member->second.holds == 0);
  const std::optional<BlockKey> parent = member->second.parent;
  if (member->second.is_candidate) candidates_[member->second.queue].erase(member->second.tick);
  members_.erase(member);
  if (!parent) return;
  const auto children = children_.find(*parent);
  KVT_CHECK(children != children_.end() && children->second > 0);
  if (--children->second > 0) return;
  children_.erase(children);
  if (const auto at = members_.find(*parent); at != members_.end()) Refresh(at->first, &at->second);
}

void LruLeaves::Hold(const BlockKey& key) {
  const auto member = members_.find(key);
  KVT_CHECK(member != members_.end());
  if (member->second.holds++ > 0) return;
  ++held_;
  Refresh(key, &member->second);
}

void LruLeaves::Unhold(const BlockKey& key) {
  const auto member = members_.find(key);
  KVT_CHECK(member != members_.end());
  KVT_CHECK(member->second.holds > 0);
  if (--member->second.holds > 0) return;
  --held_;
  Refresh(key, &member->second);
}

std::optional<BlockKey> LruLeaves::CandidateWithout(std::span<const BlockKey> gone) const {
  const std::optional<BlockKey> parent = members_.at(gone.back()).parent;
  const auto at = parent ? members_.find(*parent) : members_.end();
  if (at == members_.end() || at->second.holds > 0) return std::nullopt;
  const auto children = std::ranges::count_if(
      gone, [&](const BlockKey& key) { return members_.at(key).parent == parent; });
  if (static_cast<size_t>(children) < children_.at(*parent)) return std::nullopt;
  return parent;
}

size_t LruLeaves::AddQueue() {
  candidates_.emplace_back();
  return candidates_.size() - 1;
}

std::optional<BlockKey> LruLeaves::Victim() const {
  const Candidates::value_type* coldest = nullptr;
  for (const auto& queue : candidates_) {
    if (queue.empty()) continue;
    if (coldest == nullptr || queue.begin()->first < coldest->first) coldest = &*queue.begin();
  }
  if (coldest == nullptr) return std::nullopt;
  return coldest->second;
}

std::optional<BlockKey> LruLeaves::VictimOf(size_t queue) const {
  if (candidates_[queue].empty()) return std::nullopt;
  return candidates_[queue].begin()->second;
}

void LruLeaves::Audit() const {
  absl::flat_hash_map<BlockKey, uint32_t> children;
  std::map<uint64_t, BlockKey> ticks;
  size_t held = 0;
  for (const auto& [key, member] : members_) {
    if (member.parent) ++children[*member.parent];
    if (member.holds > 0) ++held;
    KVT_CHECK(member.tick < next_tick_);
    KVT_CHECK(ticks.emplace(member.tick, key).second);
  }
  KVT_CHECK(children == children_);
  KVT_CHECK(held == held_);
  size_t candidates = 0;
  for (const auto& [key, member] : members_) {
    const Candidates& queue = candidates_[member.queue];
    const auto at = queue.find(member.tick);
    KVT_CHECK(IsCandidate(key, member) == (at != queue.end()));
    KVT_CHECK(member.is_candidate == (at != queue.end()));
    if (at == queue.end()) continue;
    KVT_CHECK(at->second == key);
    ++candidates;
  }
  const bool any = candidates > 0;
  for (const auto& queue : candidates_) candidates -= queue.size();
  KVT_CHECK(candidates == 0);
  // No cycle of parents: then some member has no child.
  KVT_CHECK(members_.empty() || held_ > 0 || any);
}

}  // namespace kvtier
