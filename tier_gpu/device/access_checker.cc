#include "tier_gpu/device/access_checker.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {
namespace {

void JoinInto(const AccessChecker::VectorClock& from, AccessChecker::VectorClock* into) {
  if (into->size() < from.size()) into->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) (*into)[i] = std::max((*into)[i], from[i]);
}

const char* NameOf(AccessChecker::Access access) {
  return access == AccessChecker::Access::kRead ? "read" : "write";
}

}  // namespace

AccessChecker::Timeline AccessChecker::AddTimeline(std::string name) {
  names_.push_back(std::move(name));
  for (VectorClock& clock : clocks_) clock.push_back(0);
  clocks_.emplace_back(names_.size());
  clocks_.back().back() = 1;
  return static_cast<Timeline>(names_.size() - 1);
}

void AccessChecker::AddMapping(std::span<const std::byte> mapped, const std::string& id,
                               uint64_t offset) {
  KVT_CHECK(!mapped.empty());
  const absl::MutexLock lock(&mu_);
  Mapping& mapping =
      mappings_.try_emplace(mapped.data(), Mapping{mapped, id, offset}).first->second;
  KVT_CHECK(mapping.bytes.size() == mapped.size() && mapping.id == id);
  ++mapping.times;
}

void AccessChecker::RemoveMapping(std::span<const std::byte> mapped) {
  const absl::MutexLock lock(&mu_);
  const auto found = mappings_.find(mapped.data());
  KVT_CHECK(found != mappings_.end());
  if (--found->second.times == 0) mappings_.erase(found);
}

AccessChecker::VectorClock AccessChecker::Fork(Timeline timeline) {
  const VectorClock seen = clock(timeline);
  // Makes later accesses of the timeline newer than the clock that is returned.
  ++clock(timeline)[static_cast<size_t>(timeline)];
  return seen;
}

void AccessChecker::Join(Timeline timeline, const VectorClock& seen) {
  JoinInto(seen, &clock(timeline));
}

void AccessChecker::Release(Timeline timeline, const void* word) {
  JoinInto(Fork(timeline), &words_[word]);
}

void AccessChecker::Acquire(Timeline timeline, const void* word) {
  const auto found = words_.find(word);
  if (found != words_.end()) Join(timeline, found->second);
}

void AccessChecker::Note(Timeline timeline, Access access, std::span<const std::byte> bytes) {
  const std::byte* const end = bytes.data() + bytes.size();
  const absl::MutexLock lock(&mu_);
  auto next = mappings_.upper_bound(bytes.data());
  if (next != mappings_.begin()) --next;
  for (; next != mappings_.end() && next->first < end; ++next) {
    const Mapping& mapping = next->second;
    const std::byte* const from = std::max(bytes.data(), mapping.bytes.data());
    const std::byte* const to = std::min(end, mapping.bytes.data() + mapping.bytes.size());
    if (from >= to) continue;
    const uint64_t first = mapping.offset + (from - mapping.bytes.data());
    const uint64_t last = first + (to - from) - 1;
    for (uint64_t granule = first / granule_; granule <= last / granule_; ++granule) {
      NoteGranule(timeline, access, {mapping.id, granule});
    }
  }
}

bool AccessChecker::Before(const Moment& older, Timeline timeline) {
  return older.tick <= clock(timeline)[static_cast<size_t>(older.timeline)];
}

void AccessChecker::NoteGranule(Timeline timeline, Access access, const Place& place) {
  History& history = places_[place];
  const Moment now = {timeline, clock(timeline)[static_cast<size_t>(timeline)]};
  if (history.write.tick > 0 && !Before(history.write, timeline)) {
    Report(place, Access::kWrite, history.write, access, timeline);
  }
  if (access == Access::kRead) {
    const auto mine = std::ranges::find(history.reads, timeline, &Moment::timeline);
    if (mine == history.reads.end()) {
      history.reads.push_back(now);
    } else {
      *mine = now;
    }
    return;
  }
  for (const Moment& read : history.reads) {
    if (!Before(read, timeline)) Report(place, Access::kRead, read, access, timeline);
  }
  history.reads.clear();
  history.write = now;
}

void AccessChecker::Report(const Place& place, Access older, const Moment& moment, Access newer,
                           Timeline timeline) {
  if (races_.size() == kMaxRaces) return;
  races_.push_back(absl::StrCat("the ", NameOf(newer), " by ",
                                names_[static_cast<size_t>(timeline)], " of block ", place.second,
                                " of ", place.first, " is not ordered after the ", NameOf(older),
                                " by ", names_[static_cast<size_t>(moment.timeline)]));
}

}  // namespace kvtier
