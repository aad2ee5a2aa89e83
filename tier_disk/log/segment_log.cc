#include "tier_disk/log/segment_log.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/kill_point.h"
#include "core/space.h"

namespace kvtier {

SegmentLog::SegmentLog(std::span<const Found> segments, uint64_t segment_bytes)
    : segment_bytes_(segment_bytes), segments_(segments.size()) {
  KVT_CHECK(segment_bytes % kBlockAlignment == 0);
  for (size_t i = 0; i < segments.size(); ++i) {
    const SegmentId id{static_cast<uint32_t>(i)};
    segments_[i].generation = segments[i].generation;
    last_generation_ = std::max(last_generation_, segments[i].generation);
    if (!segments[i].holds_records) {
      free_.push_back(id);
      continue;
    }
    // It is unknown how far a crashed process wrote, so nothing is appended here again.
    segments_[i].state = State::kSealed;
    segments_[i].tail = segment_bytes;
    sealed_.push_back(id);
  }
  const auto age = [this](SegmentId id) { return std::pair(generation(id), id); };
  std::sort(sealed_.begin(), sealed_.end(),
            [&](SegmentId a, SegmentId b) { return age(a) < age(b); });
}

SegmentLog::Segment& SegmentLog::At(SegmentId segment) {
  const auto index = static_cast<size_t>(segment);
  KVT_CHECK(index < segments_.size());
  return segments_[index];
}

const SegmentLog::Segment& SegmentLog::At(SegmentId segment) const {
  const auto index = static_cast<size_t>(segment);
  KVT_CHECK(index < segments_.size());
  return segments_[index];
}

uint64_t SegmentLog::generation(SegmentId segment) const { return At(segment).generation; }

uint64_t SegmentLog::tail(SegmentId segment) const { return At(segment).tail; }

std::optional<RecordPlace> SegmentLog::Reserve(uint64_t bytes, Use use) {
  KVT_CHECK(bytes <= segment_bytes_ && bytes % kBlockAlignment == 0);
  // Does not seal the open segment for a put that does not fit: reclaim could open no other.
  const bool is_kept = use == Use::kPut && reserved_for_reclaim_ > 0 && free_.empty();
  if (is_kept && reclaim_room() < bytes + reserved_for_reclaim_) return std::nullopt;
  if (open_ && At(*open_).tail + bytes > segment_bytes_) {
    At(*open_).state = State::kSealed;
    sealed_.push_back(*open_);
    open_.reset();
    KVT_KILL_POINT("segment.sealed");
  }
  if (!open_) {
    const size_t keep = use == Use::kPut ? kReserveSegments : 0;
    if (free_.size() <= keep) return std::nullopt;
    open_ = free_.front();
    free_.pop_front();
    At(*open_).state = State::kOpen;
    At(*open_).tail = 0;
    KVT_KILL_POINT("segment.opened");
  }
  Segment& segment = At(*open_);
  const RecordPlace place{
      .segment = *open_, .generation = segment.generation, .offset = segment.tail};
  segment.tail += bytes;
  ++segment.writers;
  return place;
}

uint64_t SegmentLog::reclaim_room() const {
  if (!free_.empty()) return segment_bytes_;
  return open_ ? segment_bytes_ - At(*open_).tail : 0;
}

void SegmentLog::EndWrite(const RecordPlace& place) {
  Segment& segment = At(place.segment);
  KVT_CHECK(segment.writers > 0 && segment.generation == place.generation);
  --segment.writers;
}

std::vector<SegmentId> SegmentLog::Reclaimable() const {
  std::vector<SegmentId> result;
  for (const SegmentId id : sealed_) {
    if (At(id).writers == 0) result.push_back(id);
  }
  return result;
}

bool SegmentLog::AwaitsWrites() const {
  return std::ranges::any_of(sealed_, [this](SegmentId id) { return At(id).writers > 0; });
}

std::vector<SegmentId> SegmentLog::Written() const {
  std::vector<SegmentId> result(sealed_.begin(), sealed_.end());
  if (open_) result.push_back(*open_);
  return result;
}

void SegmentLog::BeginReclaim(SegmentId segment) {
  const auto place = std::find(sealed_.begin(), sealed_.end(), segment);
  KVT_CHECK(place != sealed_.end() && At(segment).writers == 0);
  sealed_.erase(place);
  At(segment).state = State::kReclaiming;
}

void SegmentLog::Free(SegmentId segment, uint64_t generation) {
  Segment& freed = At(segment);
  KVT_CHECK(freed.state == State::kReclaiming && generation > freed.generation);
  freed.state = State::kFree;
  freed.generation = generation;
  free_.push_back(segment);
}

void SegmentLog::PutBack(SegmentId segment) {
  KVT_CHECK(At(segment).state == State::kReclaiming);
  At(segment).state = State::kSealed;
  sealed_.push_front(segment);
}

void SegmentLog::Audit() const {
  size_t open = 0;
  for (size_t i = 0; i < segments_.size(); ++i) {
    const SegmentId id{static_cast<uint32_t>(i)};
    const Segment& segment = segments_[i];
    const bool active = segment.state == State::kOpen || segment.state == State::kSealed;
    KVT_CHECK(active || segment.writers == 0);
    KVT_CHECK(segment.tail <= segment_bytes_);
    KVT_CHECK(segment.generation <= last_generation_);
    KVT_CHECK((std::count(free_.begin(), free_.end(), id) == 1) == (segment.state == State::kFree));
    KVT_CHECK((std::count(sealed_.begin(), sealed_.end(), id) == 1) ==
              (segment.state == State::kSealed));
    KVT_CHECK((open_ == id) == (segment.state == State::kOpen));
    open += segment.state == State::kOpen ? 1 : 0;
  }
  KVT_CHECK(open <= 1);
}

}  // namespace kvtier
