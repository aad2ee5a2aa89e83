#include "tier_host/slot_pool.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/space.h"

namespace kvtier {

SlotPool::SlotPool(uint64_t pool_bytes, uint64_t slab_bytes, Slabs slabs)
    : slab_bytes_(slab_bytes) {
  KVT_CHECK(slab_bytes > 0 && slab_bytes % kBlockAlignment == 0);
  KVT_CHECK(pool_bytes % slab_bytes == 0);
  slabs_.resize(pool_bytes / slab_bytes);
  for (uint32_t slab = 0; slab < slabs_.size(); ++slab) {
    absent_slabs_.insert(slab);
    if (slabs == Slabs::kPresent) Add(slab);
  }
}

void SlotPool::Add(uint32_t slab) {
  KVT_CHECK(absent_slabs_.erase(slab) == 1);
  slabs_[slab].state = Slab::State::kPresent;
  List(slab);
}

void SlotPool::Close(uint32_t slab) {
  KVT_CHECK(slab < slabs_.size() && slabs_[slab].state == Slab::State::kPresent);
  Unlist(slab);
  slabs_[slab].state = Slab::State::kClosed;
  ++closed_slabs_;
}

void SlotPool::Reopen(uint32_t slab) {
  KVT_CHECK(slab < slabs_.size() && slabs_[slab].state == Slab::State::kClosed);
  slabs_[slab].state = Slab::State::kPresent;
  --closed_slabs_;
  List(slab);
}

void SlotPool::Remove(uint32_t slab) {
  KVT_CHECK(slab < slabs_.size() && slabs_[slab].state == Slab::State::kClosed);
  KVT_CHECK(slabs_[slab].used == 0);
  slabs_[slab].state = Slab::State::kAbsent;
  --closed_slabs_;
  absent_slabs_.insert(slab);
}

std::optional<uint32_t> SlotPool::LastFree() const {
  return free_slabs_.empty() ? std::nullopt : std::optional(*free_slabs_.rbegin());
}

void SlotPool::List(uint32_t slab) {
  const Slab& listed = slabs_[slab];
  if (listed.used == 0) {
    free_slabs_.insert(slab);
  } else if (!listed.free.empty()) {
    open_slabs_[listed.slot_bytes].insert(slab);
  }
}

void SlotPool::Unlist(uint32_t slab) {
  free_slabs_.erase(slab);
  const auto open = open_slabs_.find(slabs_[slab].slot_bytes);
  if (open == open_slabs_.end()) return;
  open->second.erase(slab);
  if (open->second.empty()) open_slabs_.erase(open);
}

absl::StatusOr<SlotOffset> SlotPool::Allocate(uint64_t slot_bytes) {
  KVT_CHECK(slot_bytes > 0 && slot_bytes % kBlockAlignment == 0);
  if (slot_bytes > slab_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slot has ", slot_bytes, " bytes; must fit in a slab of ", slab_bytes_, " bytes"));
  }
  if (!open_slabs_.contains(slot_bytes) && !OpenSlab(slot_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat("no slot of ", slot_bytes,
                                                     " bytes is free: ", used_bytes_, " of ",
                                                     capacity_bytes(), " bytes are used"));
  }
  const auto open = open_slabs_.find(slot_bytes);
  // The lowest one, so that high slabs run empty and can change size.
  const uint32_t number = *open->second.begin();
  Slab& slab = slabs_[number];
  const uint32_t slot = slab.free.back();
  slab.free.pop_back();
  slab.taken[slot] = true;
  ++slab.used;
  used_bytes_ += slot_bytes;
  if (slab.free.empty()) {
    open->second.erase(number);
    if (open->second.empty()) open_slabs_.erase(open);
  }
  return SlotOffset{number * slab_bytes_ + slot * slot_bytes};
}

bool SlotPool::OpenSlab(uint64_t slot_bytes) {
  if (free_slabs_.empty()) return false;
  const uint32_t number = *free_slabs_.begin();
  free_slabs_.erase(free_slabs_.begin());
  Slab& slab = slabs_[number];
  slab.slot_bytes = slot_bytes;
  const uint32_t slots = static_cast<uint32_t>(slab_bytes_ / slot_bytes);
  slab.taken.assign(slots, false);
  slab.free.clear();
  for (uint32_t slot = slots; slot > 0; --slot) slab.free.push_back(slot - 1);
  open_slabs_[slot_bytes].insert(number);
  return true;
}

void SlotPool::Free(SlotOffset offset) {
  const uint32_t number = SlabOf(offset);
  const uint64_t inside = offset.value % slab_bytes_;
  KVT_CHECK(number < slabs_.size());
  Slab& slab = slabs_[number];
  KVT_CHECK(slab.slot_bytes > 0 && inside % slab.slot_bytes == 0);
  const uint32_t slot = static_cast<uint32_t>(inside / slab.slot_bytes);
  KVT_CHECK(slot < slab.taken.size() && slab.taken[slot]);
  slab.taken[slot] = false;
  slab.free.push_back(slot);
  --slab.used;
  used_bytes_ -= slab.slot_bytes;
  const bool closed = slab.state == Slab::State::kClosed;
  if (slab.used > 0) {
    if (!closed) open_slabs_[slab.slot_bytes].insert(number);
    return;
  }
  Unlist(number);
  slab.slot_bytes = 0;
  slab.free.clear();
  slab.taken.clear();
  if (!closed) List(number);
}

void SlotPool::AddUseTo(std::map<uint64_t, SizeUse>* sizes) const {
  for (const Slab& slab : slabs_) {
    if (slab.used == 0) continue;
    SizeUse& use = (*sizes)[slab.slot_bytes];
    ++use.slabs;
    use.used += slab.used;
    use.free += slab.free.size();
  }
}

void SlotPool::AuditSlab(uint32_t number) const {
  const Slab& slab = slabs_[number];
  const bool present = slab.state == Slab::State::kPresent;
  KVT_CHECK((slab.slot_bytes == 0) == (slab.used == 0));
  KVT_CHECK(absent_slabs_.contains(number) == !IsPresent(number));
  KVT_CHECK(IsPresent(number) || slab.used == 0);
  KVT_CHECK(free_slabs_.contains(number) == (present && slab.used == 0));
  if (slab.used == 0) return;
  KVT_CHECK(slab.taken.size() == slab_bytes_ / slab.slot_bytes);
  KVT_CHECK(static_cast<size_t>(std::count(slab.taken.begin(), slab.taken.end(), true)) ==
            slab.used);
  KVT_CHECK(slab.free.size() + slab.used == slab.taken.size());
  std::vector<bool> seen = slab.taken;
  for (const uint32_t slot : slab.free) {
    KVT_CHECK(slot < seen.size() && !seen[slot]);
    seen[slot] = true;
  }
  const auto open = open_slabs_.find(slab.slot_bytes);
  const bool is_open = open != open_slabs_.end() && open->second.contains(number);
  KVT_CHECK(is_open == (present && !slab.free.empty()));
}

// Slots of one slab are equal and start at multiples of their size, so two used
// slots can overlap only by being one slot taken twice, which `taken` rules out.
void SlotPool::Audit() const {
  uint64_t used_bytes = 0;
  size_t open_count = 0;
  uint32_t closed = 0;
  for (uint32_t number = 0; number < slabs_.size(); ++number) {
    AuditSlab(number);
    const Slab& slab = slabs_[number];
    used_bytes += slab.used * slab.slot_bytes;
    if (slab.state == Slab::State::kClosed) ++closed;
    if (slab.state == Slab::State::kPresent && slab.used > 0 && !slab.free.empty()) ++open_count;
  }
  for (const auto& [slot_bytes, open] : open_slabs_) {
    KVT_CHECK(!open.empty());
    KVT_CHECK(open.size() <= open_count);
    open_count -= open.size();
  }
  KVT_CHECK(open_count == 0 && closed == closed_slabs_);
  KVT_CHECK(used_bytes == used_bytes_);
}

}  // namespace kvtier
