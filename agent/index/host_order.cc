#include "agent/index/host_order.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "core/check.h"

namespace kvtier {

HostOrder::Size& HostOrder::SizeOf(uint64_t slot_bytes) {
  const auto [size, added] = sizes_.try_emplace(slot_bytes);
  if (added) size->second.group = static_cast<uint32_t>(sizes_.size() - 1);
  return size->second;
}

HostOrder::Place HostOrder::Insert(const BlockMeta& meta, const HostSlot& slot, Arrival arrival,
                                   const ReuseHint& hint) {
  const Place place = order_.Insert({.key = meta.key,
                                     .parent = meta.parent,
                                     .arrival = arrival,
                                     .hint = hint,
                                     .group = SizeOf(slot.slot_bytes()).group,
                                     .length = meta.length});
  AddToSlab(place, slot);
  return place;
}

void HostOrder::AddToSlab(Place place, const HostSlot& slot) {
  if (slot.slab() >= slabs_.size()) slabs_.resize(slot.slab() + 1);
  Slab& slab = slabs_[slot.slab()];
  if (slab.blocks++ == 0) {
    slab.offset = slot.offset().value - slot.number() * slot.slot_bytes();
    slab.slot_bytes = slot.slot_bytes();
    slab.places.clear();
  }
  if (slot.number() >= slab.places.size()) slab.places.resize(slot.number() + 1);
  KVT_CHECK(!std::exchange(slab.places[slot.number()], place).has_value());
  slab.last_uses += order_.LastUseOf(place);
}

void HostOrder::TakeFromSlab(Place place, const HostSlot& slot) {
  Slab& slab = slabs_[slot.slab()];
  slab.last_uses -= order_.LastUseOf(place);
  --slab.blocks;
  KVT_CHECK(std::exchange(slab.places[slot.number()], std::nullopt) == place);
}

void HostOrder::Move(Place place, const HostSlot& from, const HostSlot& to) {
  KVT_CHECK(from.slot_bytes() == to.slot_bytes());
  TakeFromSlab(place, from);
  AddToSlab(place, to);
}

EvictionOrder::Newcomer HostOrder::InOrder(const Newcomer& newcomer) {
  return {.key = newcomer.meta->key,
          .parent = newcomer.meta->parent,
          .hint = newcomer.hint,
          .group = SizeOf(newcomer.slot_bytes).group,
          .followers = newcomer.followers,
          .length = newcomer.meta->length};
}

void HostOrder::Touch(Place place, const HostSlot& slot, const ReuseHint& hint) {
  Slab& slab = slabs_[slot.slab()];
  slab.last_uses -= order_.LastUseOf(place);
  order_.Touch(place, hint);
  slab.last_uses += order_.LastUseOf(place);
}

bool HostOrder::Erase(Place place, const HostSlot& slot) {
  TakeFromSlab(place, slot);
  const bool was_aside = order_.WasSetAside(place);
  order_.Erase(place);
  return was_aside;
}

void HostOrder::Hold(Place place, const HostSlot& slot) {
  order_.Hold(place);
  ++slabs_[slot.slab()].held;
}

void HostOrder::Unhold(Place place, const HostSlot& slot) {
  order_.Unhold(place);
  --slabs_[slot.slab()].held;
}

std::vector<BlockKey> HostOrder::VictimsFor(uint64_t slot_bytes, const SlotPool& slots) {
  Size& size = SizeOf(slot_bytes);
  const std::optional<BlockKey> victim = order_.Victim(size.group);
  if (victim.has_value()) {
    size.dropped += slot_bytes;
    // With a single size, no other size can starve it.
    if (size.dropped < slots.slab_bytes() || sizes_.size() == 1) return {*victim};
    size.dropped = 0;
  }
  const std::optional<Choice> cheapest = CheapestSlab(slot_bytes, slots);
  if (!victim.has_value()) {
    return cheapest.has_value() ? BlocksOf(cheapest->slab) : std::vector<BlockKey>();
  }
  const auto age =
      static_cast<double>(order_.last_moment() - order_.LastUseOf(*order_.Find(*victim)));
  if (cheapest.has_value() && cheapest->mean_age > age) return BlocksOf(cheapest->slab);
  return {*victim};
}

std::optional<EvictionOrder::SetAside> HostOrder::SetNextAside(uint64_t slot_bytes) {
  return order_.SetNextAside(SizeOf(slot_bytes).group);
}

std::vector<HostOrder::SizeUse> HostOrder::UseBySize() const {
  std::vector<SizeUse> uses;
  uses.reserve(sizes_.size());
  for (const auto& [slot_bytes, size] : sizes_) {
    uses.push_back({.slot_bytes = slot_bytes,
                    .blocks = order_.members(size.group),
                    .aside = order_.aside(size.group)});
  }
  return uses;
}

std::optional<HostOrder::Choice> HostOrder::CheapestSlab(uint64_t slot_bytes,
                                                         const SlotPool& slots) const {
  std::optional<Choice> cheapest;
  double least = 0;
  for (uint32_t number = 0; number < slabs_.size(); ++number) {
    const Slab& slab = slabs_[number];
    if (slab.blocks == 0 || slab.held > 0 || slots.IsClosed(number)) continue;
    const SlotPool::SlabUse use = slots.UseOf(number);
    // A used slot without a block is reserved, late or being filled.
    if (use.used != slab.blocks || use.slot_bytes == slot_bytes) continue;
    const double mean_age = static_cast<double>(order_.last_moment()) -
                            static_cast<double>(slab.last_uses) / static_cast<double>(slab.blocks);
    const double cost = static_cast<double>(use.used * use.slot_bytes) / (mean_age + 1);
    if (cheapest.has_value() && cost >= least) continue;
    least = cost;
    cheapest = Choice{.slab = number, .mean_age = mean_age};
  }
  return cheapest;
}

std::optional<uint32_t> HostOrder::SlabToEmpty(const SlotPool& slots) const {
  constexpr uint64_t kNoSize = 0;
  if (const auto cheapest = CheapestSlab(kNoSize, slots)) return cheapest->slab;
  std::optional<uint32_t> fewest;
  uint32_t least = 0;
  for (uint32_t number = 0; number < slots.slab_count(); ++number) {
    const SlotPool::SlabUse use = slots.UseOf(number);
    if (use.used == 0 || slots.IsClosed(number)) continue;
    const bool has_blocks = number < slabs_.size() && slabs_[number].blocks > 0;
    const uint32_t stuck =
        has_blocks ? use.used - slabs_[number].blocks + slabs_[number].held : use.used;
    if (fewest.has_value() && stuck >= least) continue;
    least = stuck;
    fewest = number;
  }
  return fewest;
}

void HostOrder::BeginLeaving(uint32_t slab) {
  if (slab >= slabs_.size()) slabs_.resize(slab + 1);
  slabs_[slab].leaving = true;
}

std::vector<BlockKey> HostOrder::BlocksOf(uint32_t slab) const {
  std::vector<BlockKey> blocks;
  if (slab >= slabs_.size() || slabs_[slab].blocks == 0) return blocks;
  blocks.reserve(slabs_[slab].blocks);
  for (const std::optional<Place>& place : slabs_[slab].places) {
    if (place.has_value()) blocks.push_back(order_.KeyOf(*place));
  }
  return blocks;
}

std::vector<BlockKey> HostOrder::LatestUsedOf(uint32_t slab) const {
  std::vector<BlockKey> blocks = BlocksOf(slab);
  std::ranges::sort(blocks, std::greater<>(),
                    [this](const BlockKey& key) { return order_.LastUseOf(*order_.Find(key)); });
  return blocks;
}

std::vector<BlockKey> HostOrder::From(uint64_t* offset, size_t blocks, uint64_t bytes) const {
  std::vector<BlockKey> found;
  uint64_t end = UINT64_MAX;
  for (const Slab& slab : slabs_) {
    if (slab.blocks == 0 || *offset >= slab.offset + slab.places.size() * slab.slot_bytes) continue;
    const uint64_t within = *offset > slab.offset ? *offset - slab.offset : 0;
    for (size_t number = (within + slab.slot_bytes - 1) / slab.slot_bytes;
         number < slab.places.size(); ++number) {
      if (!slab.places[number].has_value()) continue;
      const uint64_t at = slab.offset + number * slab.slot_bytes;
      if (at >= end || found.size() >= blocks) return found;
      if (found.empty()) end = at + bytes;
      found.push_back(order_.KeyOf(*slab.places[number]));
      *offset = at + 1;
    }
  }
  return found;
}

void HostOrder::Audit() const {
  order_.Audit();
  uint64_t blocks = 0;
  uint64_t held = 0;
  Moment last_uses = 0;
  for (const Slab& slab : slabs_) {
    KVT_CHECK(slab.held <= slab.blocks);
    uint32_t in_slots = 0;
    for (const std::optional<Place>& place : slab.places) {
      if (!place.has_value()) continue;
      last_uses -= order_.LastUseOf(*place);
      ++in_slots;
    }
    KVT_CHECK(in_slots == slab.blocks);
    blocks += slab.blocks;
    held += slab.held;
    last_uses += slab.last_uses;
  }
  KVT_CHECK(blocks == order_.size() && held == order_.held() && last_uses == 0);
}

}  // namespace kvtier
