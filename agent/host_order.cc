#include "agent/host_order.h"

#include "core/check.h"

namespace kvtier {

HostOrder::Size& HostOrder::SizeOf(uint64_t slot_bytes) {
  const auto [size, added] = sizes_.try_emplace(slot_bytes);
  if (added) size->second.queue = leaves_.AddQueue();
  return size->second;
}

HostOrder::Place* HostOrder::Insert(const BlockKey& key, const std::optional<BlockKey>& parent,
                                    const HostSlot& slot) {
  Place* const place = leaves_.Insert(key, parent, SizeOf(slot.slot_bytes()).queue);
  KVT_CHECK(by_offset_.emplace(slot.offset().value, key).second);
  if (slot.slab() >= slabs_.size()) slabs_.resize(slot.slab() + 1);
  Slab& slab = slabs_[slot.slab()];
  ++slab.blocks;
  slab.ticks += place->tick();
  return place;
}

void HostOrder::Touch(Place* place, const HostSlot& slot) {
  const uint64_t before = leaves_.Touch(place, SizeOf(slot.slot_bytes()).queue);
  slabs_[slot.slab()].ticks += place->tick() - before;
}

void HostOrder::Erase(Place* place, const HostSlot& slot) {
  Slab& slab = slabs_[slot.slab()];
  slab.ticks -= place->tick();
  --slab.blocks;
  leaves_.Erase(place);
  KVT_CHECK(by_offset_.erase(slot.offset().value) == 1);
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
    return cheapest.has_value() ? BlocksOf(cheapest->slab, slots) : std::vector<BlockKey>();
  }
  const auto age = static_cast<double>(leaves_.LastTick() - leaves_.TickOf(*coldest));
  if (cheapest.has_value() && cheapest->mean_age > age) return BlocksOf(cheapest->slab, slots);
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

std::vector<BlockKey> HostOrder::BlocksOf(uint32_t slab, const SlotPool& slots) const {
  std::vector<BlockKey> blocks;
  blocks.reserve(slabs_[slab].blocks);
  const uint64_t end = (slab + uint64_t{1}) * slots.slab_bytes();
  for (auto block = by_offset_.lower_bound(slab * slots.slab_bytes());
       block != by_offset_.end() && block->first < end; ++block) {
    blocks.push_back(block->second);
  }
  return blocks;
}

std::vector<BlockKey> HostOrder::From(uint64_t* offset, size_t blocks, uint64_t bytes) const {
  std::vector<BlockKey> found;
  auto block = by_offset_.lower_bound(*offset);
  const uint64_t end = block == by_offset_.end() ? 0 : block->first + bytes;
  for (; block != by_offset_.end() && block->first < end && found.size() < blocks; ++block) {
    found.push_back(block->second);
    *offset = block->first + 1;
  }
  return found;
}

void HostOrder::Audit() const {
  leaves_.Audit();
  KVT_CHECK(by_offset_.size() == leaves_.size());
  uint64_t blocks = 0;
  uint64_t held = 0;
  uint64_t ticks = 0;
  for (const Slab& slab : slabs_) {
    KVT_CHECK(slab.held <= slab.blocks);
    blocks += slab.blocks;
    held += slab.held;
    ticks += slab.ticks;
  }
  for (const auto& [offset, key] : by_offset_) ticks -= leaves_.TickOf(key);
  KVT_CHECK(blocks == leaves_.size() && held == leaves_.held() && ticks == 0);
}

}  // namespace kvtier
