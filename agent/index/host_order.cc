#include "agent/index/host_order.h"

#include <utility>

#include "core/check.h"

namespace kvtier {

HostOrder::Size& HostOrder::SizeOf(uint64_t slot_bytes) {
  const auto [size, added] = sizes_.try_emplace(slot_bytes);
  if (added) size->second.queue = leaves_.AddQueue();
  return size->second;
}

HostOrder::Place* HostOrder::Insert(const BlockMeta& meta, const HostSlot& slot,
                                    Arrival /*arrival*/, const ReuseHint& /*hint*/) {
  Place* const place = leaves_.Insert(meta.key, meta.parent, SizeOf(slot.slot_bytes()).queue);
  if (slot.slab() >= slabs_.size()) slabs_.resize(slot.slab() + 1);
  Slab& slab = slabs_[slot.slab()];
  if (slab.blocks++ == 0) {
    slab.offset = slot.offset().value - slot.number() * slot.slot_bytes();
    slab.slot_bytes = slot.slot_bytes();
    slab.places.clear();
  }
  if (slot.number() >= slab.places.size()) slab.places.resize(slot.number() + 1);
  KVT_CHECK(std::exchange(slab.places[slot.number()], place) == nullptr);
  slab.ticks += place->tick();
  return place;
}

void HostOrder::Touch(Place* place, const HostSlot& slot, const ReuseHint& /*hint*/) {
  const uint64_t before = leaves_.Touch(place, SizeOf(slot.slot_bytes()).queue);
  slabs_[slot.slab()].ticks += place->tick() - before;
}

void HostOrder::Advise(Place* /*place*/, const HostSlot& /*slot*/, const ReuseHint& /*hint*/) {}

void HostOrder::Erase(Place* place, const HostSlot& slot) {
  Slab& slab = slabs_[slot.slab()];
  slab.ticks -= place->tick();
  --slab.blocks;
  KVT_CHECK(std::exchange(slab.places[slot.number()], nullptr) == place);
  leaves_.Erase(place);
}

void HostOrder::Hold(Place* place, const HostSlot& slot) {
  leaves_.Hold(place);
  ++slabs_[slot.slab()].held;
}

void HostOrder::Unhold(Place* place, const HostSlot& slot) {
  leaves_.Unhold(place);
  --slabs_[slot.slab()].held;
}

std::vector<BlockKey> HostOrder::VictimsFor(uint64_t slot_bytes, const SlotPool& slots) {
  Size& size = SizeOf(slot_bytes);
  const std::optional<BlockKey> coldest = leaves_.VictimOf(size.queue);
  if (coldest.has_value()) {
    size.dropped += slot_bytes;
    // As long as the others have nothing, the size cannot be starved by them.
    if (size.dropped < slots.slab_bytes() || sizes_.size() == 1) return {*coldest};
    size.dropped = 0;
  }
  const std::optional<Choice> cheapest = CheapestSlab(slot_bytes, slots);
  if (!coldest.has_value()) {
    return cheapest.has_value() ? BlocksOf(cheapest->slab) : std::vector<BlockKey>();
  }
  const auto age = static_cast<double>(leaves_.LastTick() - leaves_.TickOf(*coldest));
  if (cheapest.has_value() && cheapest->mean_age > age) return BlocksOf(cheapest->slab);
  return {*coldest};
}

std::optional<HostOrder::Choice> HostOrder::CheapestSlab(uint64_t slot_bytes,
                                                         const SlotPool& slots) const {
  std::optional<Choice> cheapest;
  double least = 0;
  for (uint32_t number = 0; number < slabs_.size(); ++number) {
    const Slab& slab = slabs_[number];
    if (slab.blocks == 0 || slab.held > 0) continue;
    const SlotPool::SlabUse use = slots.UseOf(number);
    // A used slot without a block is reserved, late or being filled.
    if (use.used != slab.blocks || use.slot_bytes == slot_bytes) continue;
    const double mean_age = static_cast<double>(leaves_.LastTick()) -
                            static_cast<double>(slab.ticks) / static_cast<double>(slab.blocks);
    const double cost = static_cast<double>(use.used * use.slot_bytes) / (mean_age + 1);
    if (cheapest.has_value() && cost >= least) continue;
    least = cost;
    cheapest = Choice{.slab = number, .mean_age = mean_age};
  }
  return cheapest;
}

std::vector<BlockKey> HostOrder::BlocksOf(uint32_t slab) const {
  std::vector<BlockKey> blocks;
  blocks.reserve(slabs_[slab].blocks);
  for (const Place* const place : slabs_[slab].places) {
    if (place != nullptr) blocks.push_back(place->key());
  }
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
      if (slab.places[number] == nullptr) continue;
      const uint64_t at = slab.offset + number * slab.slot_bytes;
      if (at >= end || found.size() >= blocks) return found;
      if (found.empty()) end = at + bytes;
      found.push_back(slab.places[number]->key());
      *offset = at + 1;
    }
  }
  return found;
}

void HostOrder::Audit() const {
  leaves_.Audit();
  uint64_t blocks = 0;
  uint64_t held = 0;
  uint64_t ticks = 0;
  for (const Slab& slab : slabs_) {
    KVT_CHECK(slab.held <= slab.blocks);
    uint32_t in_slots = 0;
    for (const Place* const place : slab.places) {
      if (place == nullptr) continue;
      KVT_CHECK(leaves_.TickOf(place->key()) == place->tick());
      ticks -= place->tick();
      ++in_slots;
    }
    KVT_CHECK(in_slots == slab.blocks);
    blocks += slab.blocks;
    held += slab.held;
    ticks += slab.ticks;
  }
  KVT_CHECK(blocks == leaves_.size() && held == leaves_.held() && ticks == 0);
}

}  // namespace kvtier
