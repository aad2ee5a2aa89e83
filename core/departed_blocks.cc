#include "core/departed_blocks.h"

#include <algorithm>
#include <utility>

namespace kvtier {
namespace {

constexpr Moment kMomentsPerSecond = 1'000'000;
constexpr uint32_t kMaxSmallCount = 3;

uint32_t SecondOf(Moment moment) {
  return static_cast<uint32_t>(moment / kMomentsPerSecond) & 0xffff;
}

}  // namespace

uint32_t DepartedBlocks::TagOf(const BlockKey& key) {
  const uint32_t tag = static_cast<uint32_t>(key.lo >> 52);
  return tag == 0 ? 1 : tag;
}

size_t DepartedBlocks::WayOf(const Set& set, uint32_t tag) {
  // Most often no way holds the tag, which the processor finds out for all ways at once.
  bool any = false;
  for (const Entry& entry : set) any |= entry.tag == tag;
  if (!any) return kWays;
  return static_cast<size_t>(std::ranges::find(set, tag, [](const Entry& e) { return e.tag; }) -
                             set.begin());
}

// A new set begins as a copy of its source set. In each of the two, entries whose keys now belong
// to the other set are never looked up, and newer entries push them out.
void DepartedBlocks::FitTo(size_t members) {
  const size_t entries = std::max(members * kDepartedPerBlock, kMinDeparted);
  while (capacity() < entries) {
    const Set& source = sets_[SourceOfNext(sets_.size())];
    sets_.Grow();
    sets_[sets_.size() - 1] = source;
  }
}

void DepartedBlocks::Add(const BlockKey& key, const ReuseState& state, Moment last) {
  Set& set = SetOf(key);
  std::rotate(set.begin(), set.end() - 1, set.end());
  set[0] = {.tag = TagOf(key),
            .uses = std::min<uint32_t>(state.uses, kMaxSmallCount),
            .turn = std::min<uint32_t>(state.turn, kMaxSmallCount),
            .second = SecondOf(last)};
}

std::optional<DepartedBlocks::Departed> DepartedBlocks::Find(const BlockKey& key,
                                                             Moment now) const {
  const Set& set = SetOf(key);
  const size_t way = WayOf(set, TagOf(key));
  if (way == kWays) return std::nullopt;
  const Entry& entry = set[way];
  Departed departed{.seconds = static_cast<double>((SecondOf(now) - entry.second) & 0xffff)};
  departed.state.uses = entry.uses;
  departed.state.turn = entry.turn;
  return departed;
}

void DepartedBlocks::Remove(const BlockKey& key) {
  Set& set = SetOf(key);
  const size_t way = WayOf(set, TagOf(key));
  if (way == kWays) return;
  std::rotate(set.begin() + way, set.begin() + way + 1, set.end());
  set.back() = {};
}

}  // namespace kvtier
