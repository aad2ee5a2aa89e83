#include "agent/index/gpu_blocks.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/space.h"

namespace kvtier {
namespace {

// Maximum number of cold blocks that are passed over in search of a block that another tier has,
// too, or of blocks that no other tier has.
constexpr size_t kMaxCopiesLookedFor = 64;

}  // namespace

void GpuBlocks::Publish(const BlockMeta& meta, GpuSlot slot, Arrival arrival,
                        const ReuseHint& hint) {
  KVT_CHECK(parts_.pool->table().Seal(slot.ref()).ok());
  const auto [found, added] = blocks_.try_emplace(meta.key);
  KVT_CHECK(added);
  GpuBlock& block = found->second;
  block.meta = meta;
  block.offset = slot.offset();
  block.slot = std::move(slot);
  order_.AdvanceTo(parts_.clock->Now());
  block.place =
      order_.Insert({.key = meta.key, .parent = meta.parent, .arrival = arrival, .hint = hint});
  by_slot_.emplace(block.slot.ref().index, meta.key);
  padding_bytes_ += SlotBytes(meta.length) - meta.length;
  parts_.changes->Tell({.delta = {.kind = Delta::Kind::kAdd, .tier = Tier::kGpu, .key = meta.key},
                        .domain = parts_.domain});
}

GpuSlot GpuBlocks::Unpublish(const BlockKey& key) {
  const auto found = blocks_.find(key);
  KVT_CHECK(found != blocks_.end() && found->second.pins == 0);
  GpuSlot slot = std::move(found->second.slot);
  padding_bytes_ -= SlotBytes(found->second.meta.length) - found->second.meta.length;
  order_.Erase(found->second.place);
  by_slot_.erase(slot.ref().index);
  blocks_.erase(found);
  // Another pool of the node may have it still.
  if (!parts_.index->In(Tier::kGpu, key)) {
    parts_.changes->Tell({.delta = {.kind = Delta::Kind::kRemove, .tier = Tier::kGpu, .key = key},
                          .domain = parts_.domain});
  }
  return slot;
}

const GpuBlock* GpuBlocks::Find(const BlockKey& key) const {
  const auto found = blocks_.find(key);
  return found == blocks_.end() ? nullptr : &found->second;
}

std::optional<Pin> GpuBlocks::PinOf(const BlockKey& key) {
  const auto found = blocks_.find(key);
  if (found == blocks_.end()) return std::nullopt;
  return Take(&found->second);
}

void GpuBlocks::Touch(const BlockKey& key, const ReuseHint& hint) {
  if (const GpuBlock* const block = Find(key)) order_.Touch(block->place, hint);
}

void GpuBlocks::Advise(const BlockKey& key, const ReuseHint& hint) {
  if (const GpuBlock* const block = Find(key)) order_.Advise(block->place, hint);
}

std::optional<BlockKey> GpuBlocks::CheapestCopy() {
  return order_.VictimWhere(kMaxCopiesLookedFor,
                            [this](const BlockKey& key) { return parts_.index->InLowerTier(key); });
}

std::vector<BlockKey> GpuBlocks::CheapestOnlyHere(size_t limit) {
  return order_.VictimsWhere(limit, kMaxCopiesLookedFor, [this](const BlockKey& key) {
    return !parts_.index->InLowerTier(key);
  });
}

std::vector<BlockKey> GpuBlocks::UnheldFrom(uint32_t first, size_t limit) const {
  std::vector<BlockKey> unheld;
  for (auto slot = by_slot_.lower_bound(first); slot != by_slot_.end() && unheld.size() < limit;
       ++slot) {
    if (blocks_.at(slot->second).pins == 0) unheld.push_back(slot->second);
  }
  return unheld;
}

size_t GpuBlocks::blocks_not_in_host() const {
  return std::ranges::count_if(
      blocks_, [this](const auto& block) { return !parts_.index->In(Tier::kHost, block.first); });
}

void GpuBlocks::Audit() const {
  uint64_t pinned = 0;
  uint64_t padding = 0;
  for (const auto& [key, block] : blocks_) {
    padding += SlotBytes(block.meta.length) - block.meta.length;
    KVT_CHECK(block.meta.key == key && block.slot && block.offset == block.slot.offset());
    KVT_CHECK(order_.KeyOf(block.place) == key && by_slot_.at(block.slot.ref().index) == key);
    if (block.pins > 0) pinned += block.meta.length;
  }
  order_.Audit();
  KVT_CHECK(order_.size() == blocks_.size() && by_slot_.size() == blocks_.size());
  KVT_CHECK(pinned == pinned_bytes() && padding == padding_bytes_);
}

}  // namespace kvtier
