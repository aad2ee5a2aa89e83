#include "core/lru_leaves.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/container/flat_hash_map.h"
#include "core/check.h"

namespace kvtier {

const LruLeaves::Place* LruLeaves::Find(const BlockKey& key) const {
  const auto found = places_.find(key);
  return found == places_.end() || !found->second.is_member_ ? nullptr : &found->second;
}

const LruLeaves::Place& LruLeaves::At(const BlockKey& key) const {
  const Place* const place = Find(key);
  KVT_CHECK(place != nullptr);
  return *place;
}

LruLeaves::Place& LruLeaves::PlaceOf(const BlockKey& key) {
  const auto [found, added] = places_.try_emplace(key);
  if (added) found->second.key_ = key;
  return found->second;
}

void LruLeaves::ForgetIfUnknown(Place* place) {
  if (place->is_member_ || place->children_ > 0) return;
  const BlockKey key = place->key_;  // Its own goes with it.
  places_.erase(key);
}

void LruLeaves::Refresh(Place* place) {
  const bool was_candidate = place->is_candidate_;
  place->is_candidate_ = place->is_member_ && place->holds_ == 0 && place->children_ == 0;
  if (place->is_candidate_ == was_candidate) return;
  Candidates& queue = candidates_[place->queue_];
  if (place->is_candidate_) {
    queue.emplace_hint(queue.end(), place->tick_, place);
  } else if (const auto last = std::prev(queue.end()); last->second == place) {
    // The parent of what is being put: it came just before.
    queue.erase(last);
  } else {
    queue.erase(place->tick_);
  }
}

bool LruLeaves::Descends(const Place* place, const Place* ancestor) {
  while (place != nullptr && place != ancestor) place = place->parent_;
  return place != nullptr;
}

LruLeaves::Place* LruLeaves::Insert(const BlockKey& key, const std::optional<BlockKey>& parent,
                                    size_t queue) {
  return Add(key, parent, next_tick_++, queue);
}

void LruLeaves::InsertAt(const BlockKey& key, const std::optional<BlockKey>& parent,
                         uint64_t tick) {
  Add(key, parent, tick, 0);
}

LruLeaves::Place* LruLeaves::Add(const BlockKey& key, const std::optional<BlockKey>& parent,
                                 uint64_t tick, size_t queue) {
  KVT_CHECK(tick < next_tick_ && queue < candidates_.size());
  Place* const place = &PlaceOf(key);
  KVT_CHECK(!place->is_member_);
  place->is_member_ = true;
  place->tick_ = tick;
  place->queue_ = static_cast<uint32_t>(queue);
  ++size_;
  if (parent && *parent != key) {
    Place* const above = &PlaceOf(*parent);
    // Only a block that already has children can close a cycle; the rest skip the walk.
    if (place->children_ == 0 || !Descends(above, place)) {
      place->parent_ = above;
      ++above->children_;
      Refresh(above);
    }
  }
  Refresh(place);
  return place;
}

uint64_t LruLeaves::Touch(Place* place, size_t queue) {
  KVT_CHECK(queue < candidates_.size());
  // Most are none: they are held, or lie under another of their prefix.
  if (place->is_candidate_) candidates_[place->queue_].erase(place->tick_);
  const uint64_t before = std::exchange(place->tick_, next_tick_++);
  place->queue_ = static_cast<uint32_t>(queue);
  if (place->is_candidate_) {
    candidates_[queue].emplace_hint(candidates_[queue].end(), place->tick_, place);
  }
  return before;
}

std::optional<uint64_t> LruLeaves::Touch(const BlockKey& key, size_t queue) {
  if (!Contains(key)) return std::nullopt;
  return Touch(&At(key), queue);
}

void LruLeaves::Erase(Place* place) {
  KVT_CHECK(place->holds_ == 0);
  place->is_member_ = false;
  Refresh(place);
  --size_;
  Place* const parent = std::exchange(place->parent_, nullptr);
  ForgetIfUnknown(place);
  if (parent == nullptr) return;
  KVT_CHECK(parent->children_ > 0);
  --parent->children_;
  Refresh(parent);
  ForgetIfUnknown(parent);
}

void LruLeaves::Hold(Place* place) {
  if (place->holds_++ > 0) return;
  ++held_;
  Refresh(place);
}

void LruLeaves::Unhold(Place* place) {
  KVT_CHECK(place->holds_ > 0);
  if (--place->holds_ > 0) return;
  --held_;
  Refresh(place);
}

std::optional<BlockKey> LruLeaves::CandidateWithout(std::span<const BlockKey> gone) const {
  const Place* const parent = At(gone.back()).parent_;
  if (parent == nullptr || !parent->is_member_ || parent->holds_ > 0) return std::nullopt;
  const auto children =
      std::ranges::count_if(gone, [&](const BlockKey& key) { return At(key).parent_ == parent; });
  if (static_cast<size_t>(children) < parent->children_) return std::nullopt;
  return parent->key_;
}

size_t LruLeaves::AddQueue() {
  candidates_.emplace_back();
  return candidates_.size() - 1;
}

std::optional<BlockKey> LruLeaves::Victim() const {
  const Place* coldest = nullptr;
  for (const auto& queue : candidates_) {
    if (queue.empty()) continue;
    if (coldest == nullptr || queue.begin()->first < coldest->tick_) {
      coldest = queue.begin()->second;
    }
  }
  if (coldest == nullptr) return std::nullopt;
  return coldest->key_;
}

std::optional<BlockKey> LruLeaves::VictimOf(size_t queue) const {
  if (candidates_[queue].empty()) return std::nullopt;
  return candidates_[queue].begin()->second->key_;
}

void LruLeaves::Audit() const {
  absl::flat_hash_map<const Place*, uint32_t> children;
  std::map<uint64_t, BlockKey> ticks;
  size_t held = 0;
  size_t members = 0;
  for (const auto& [key, place] : places_) {
    KVT_CHECK(place.key_ == key);
    if (!place.is_member_) {
      KVT_CHECK(place.children_ > 0 && place.holds_ == 0 && place.parent_ == nullptr);
      continue;
    }
    ++members;
    if (place.parent_ != nullptr) ++children[place.parent_];
    if (place.holds_ > 0) ++held;
    KVT_CHECK(place.tick_ < next_tick_);
    KVT_CHECK(ticks.emplace(place.tick_, key).second);
  }
  KVT_CHECK(members == size_ && held == held_);
  size_t candidates = 0;
  for (const auto& [key, place] : places_) {
    const auto of_it = children.find(&place);
    KVT_CHECK(place.children_ == (of_it == children.end() ? 0 : of_it->second));
    KVT_CHECK(place.is_candidate_ ==
              (place.is_member_ && place.holds_ == 0 && place.children_ == 0));
    const Candidates& queue = candidates_[place.queue_];
    const auto at = queue.find(place.tick_);
    KVT_CHECK(place.is_candidate_ == (at != queue.end() && at->second == &place));
    candidates += place.is_candidate_ ? 1 : 0;
  }
  const bool any = candidates > 0;
  for (const auto& queue : candidates_) candidates -= queue.size();
  KVT_CHECK(candidates == 0);
  // No cycle of parents: then some member has no child.
  KVT_CHECK(size_ == 0 || held_ > 0 || any);
}

}  // namespace kvtier
