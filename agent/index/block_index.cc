#include "agent/index/block_index.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "agent/index/gpu_blocks.h"
#include "core/check.h"

namespace kvtier {

BlockIndex::BlockIndex(const Parts& parts) : PinHome(Tier::kHost), parts_(parts) {
  for (size_t domain = 0; domain < parts.domains; ++domain) AddDomain();
  if (parts.disks != nullptr) parts.changes->Follow(&disk_follower_);
}

void BlockIndex::AddDomain() {
  const auto find = [this, of = static_cast<DomainId>(host_.size())](const BlockKey& key) {
    return PlaceOf(of, key);
  };
  host_.emplace_back(std::in_place, parts_.host_eviction, find, parts_.attention_bytes);
  erasures_.push_back(0);
}

void BlockIndex::DropDomain(DomainId domain) {
  KVT_CHECK(blocks_in_host(domain) == 0);
  dropped_.insert(domain);
  const auto find_none = [](const BlockKey&) { return std::optional<HostOrder::Place>(); };
  host_.at(static_cast<size_t>(domain)).emplace(EvictionPolicy::kFifo, find_none);
}

std::optional<HostOrder::Place> BlockIndex::PlaceOf(DomainId domain, const BlockKey& key) const {
  const HostBlock* const block = Find(key);
  const bool is_there = block != nullptr && block->slot.domain() == domain;
  return is_there ? std::optional(block->place) : std::nullopt;
}

HostOrder& BlockIndex::OrderNow(DomainId domain) {
  HostOrder& order = *host_.at(static_cast<size_t>(domain));
  order.AdvanceTo(Now());
  return order;
}

void BlockIndex::DiskFollower::OnChange(const BlockChange& change) {
  if (change.delta.tier != Tier::kDisk) return;
  const HostBlock* const block = index_->Find(change.delta.key);
  if (block == nullptr) return;
  index_->OrderOf(*block).NoteBelow(block->place, change.delta.kind == Delta::Kind::kAdd);
}

void BlockIndex::PublishHost(const BlockMeta& meta, HostSlot slot, Arrival arrival,
                             const ReuseHint& hint, absl::Time now) {
  KVT_CHECK(slot);
  HostBlock& block = *blocks_.Add(meta.key);
  // An engine may compute the same block twice with bytes that differ in the last bit; the sum kept
  // here is that of the host's bytes (disks and GPU pools keep their own).
  block.meta = meta;
  block.offset = slot.offset().value;
  block.slot = std::move(slot);
  padding_bytes_ += block.slot.slot_bytes() - meta.length;
  const DomainId domain = block.slot.domain();
  HostOrder& order = OrderOf(block);
  order.AdvanceTo(now);
  block.place = order.Insert(meta, block.slot, arrival, hint);
  if (In(Tier::kDisk, meta.key)) order.NoteBelow(block.place, true);
  parts_.changes->Tell({.delta = {.kind = Delta::Kind::kAdd, .tier = Tier::kHost, .key = meta.key},
                        .domain = domain});
}

void BlockIndex::PrefetchCacheLines(DomainId domain, const BlockKey& key) const {
  blocks_.PrefetchCacheLines(key);
  host_order(domain).PrefetchCacheLines(key);
  parts_.changes->PrefetchCacheLines(domain, key);
}

BlockChange BlockIndex::TakeOut(HostBlock* block) {
  const BlockKey key = block->meta.key;
  const KeptNumber was_kept = block->kept;
  if (was_kept != KeptNumber{}) Unkeep(key);
  HostOrder& order = OrderOf(*block);
  if (block->pins > 0) order.Unhold(block->place, block->slot);
  const bool was_aside = order.Erase(block->place, block->slot);
  padding_bytes_ -= block->slot.slot_bytes() - block->meta.length;
  blocks_.Hide(*block);
  return {.delta = {.kind = Delta::Kind::kRemove, .tier = Tier::kHost, .key = key},
          .domain = block->slot.domain(),
          .was_aside = was_aside,
          .was_kept = was_kept};
}

HostSlot BlockIndex::UnpublishHost(const BlockKey& key) {
  HostBlock* const block = blocks_.Find(key);
  KVT_CHECK(block != nullptr && block->pins == 0);
  const BlockChange change = TakeOut(block);
  HostSlot slot = std::move(block->slot);
  blocks_.Free(block);
  parts_.changes->Tell(change);
  return slot;
}

bool BlockIndex::Condemn(const Pin& pin) {
  auto* const block = static_cast<HostBlock*>(BlockOf(pin));
  KVT_CHECK(block != nullptr);
  if (block->is_condemned) return false;
  const BlockChange change = TakeOut(block);
  block->is_condemned = true;
  condemned_.insert(block);
  parts_.changes->Tell(change);
  return true;
}

size_t BlockIndex::condemned_in(DomainId domain) const {
  return static_cast<size_t>(std::ranges::count_if(
      condemned_, [&](const HostBlock* block) { return block->slot.domain() == domain; }));
}

bool BlockIndex::In(Tier tier, const BlockKey& key) const {
  switch (tier) {
    case Tier::kGpu:
      return std::ranges::any_of(pools_,
                                 [&](const GpuBlocks* pool) { return pool->Contains(key); });
    case Tier::kHost:
      return blocks_.Contains(key);
    case Tier::kDisk:
      break;
  }
  return parts_.disks != nullptr && parts_.disks->Contains(key);
}

std::optional<Tier> BlockIndex::NearestTier(const BlockKey& key) const {
  for (const Tier tier : kAllTiers) {
    if (In(tier, key)) return tier;
  }
  return std::nullopt;
}

void BlockIndex::ForEachChildOf(DomainId domain, const BlockKey& parent,
                                absl::FunctionRef<bool(const BlockKey&)> visit) const {
  bool goes_on = true;
  const auto next = [&](const BlockKey& child) { return goes_on = visit(child); };
  host_order(domain).order().ForEachChildOf(parent, next);
  for (const GpuBlocks* const pool : pools_) {
    if (goes_on) pool->order().ForEachChildOf(parent, next);
  }
  if (goes_on && parts_.disks != nullptr) parts_.disks->ForEachChildOf(parent, next);
}

std::optional<Pin> BlockIndex::PinOf(const BlockKey& key) {
  HostBlock* const block = blocks_.Find(key);
  if (block == nullptr) return std::nullopt;
  return Take(block);
}

std::optional<Pin> BlockIndex::PinToLease(const BlockKey& key, std::optional<DomainId> member) {
  HostBlock* const block = blocks_.Find(key);
  if (block == nullptr || OrderOf(*block).IsLeaving(block->slot)) return std::nullopt;
  return TakeFor(block, member);
}

bool BlockIndex::Charge(const ResidentBlock& block, DomainId member) {
  const HostSlot& slot = static_cast<const HostBlock&>(block).slot;
  return member_pins_.Take(&block, slot.slot_bytes(),
                           {.domain = slot.domain(), .bytes = slot.domain_bytes()}, member);
}

void BlockIndex::Hold(ResidentBlock* block) {
  auto* const held = static_cast<HostBlock*>(block);
  if (held->kept == KeptNumber{}) OrderOf(*held).Hold(held->place, held->slot);
}

void BlockIndex::Unhold(ResidentBlock* block) {
  auto* const held = static_cast<HostBlock*>(block);
  if (held->is_condemned) {
    condemned_.erase(held);
    blocks_.Free(held);
  } else if (held->kept == KeptNumber{}) {
    OrderOf(*held).Unhold(held->place, held->slot);
  }
}

void BlockIndex::Keep(const BlockKey& key, KeptNumber number) {
  HostBlock* const block = blocks_.Find(key);
  KVT_CHECK(block != nullptr && block->kept == KeptNumber{} && number != KeptNumber{});
  block->kept = number;
  if (block->pins == 0) OrderOf(*block).Hold(block->place, block->slot);
}

void BlockIndex::Unkeep(const BlockKey& key) {
  HostBlock* const block = blocks_.Find(key);
  KVT_CHECK(block != nullptr && block->kept != KeptNumber{});
  block->kept = KeptNumber{};
  if (block->pins == 0) OrderOf(*block).Unhold(block->place, block->slot);
}

bool BlockIndex::IsKept(const BlockKey& key) const {
  const HostBlock* const block = Find(key);
  return block != nullptr && block->kept != KeptNumber{};
}

HostSlot BlockIndex::MoveTo(const BlockKey& key, HostSlot slot) {
  HostBlock* const block = blocks_.Find(key);
  KVT_CHECK(block != nullptr && block->pins == 0 && slot.domain() == block->slot.domain());
  const bool is_held = block->kept != KeptNumber{};
  HostOrder& order = OrderOf(*block);
  if (is_held) order.Unhold(block->place, block->slot);
  order.Move(block->place, block->slot, slot);
  block->offset = slot.offset().value;
  std::swap(block->slot, slot);
  if (is_held) order.Hold(block->place, block->slot);
  return slot;
}

bool BlockIndex::IsPinned(const BlockKey& key) const {
  const HostBlock* const block = Find(key);
  return block != nullptr && block->pins > 0;
}

void BlockIndex::CountHit(const Pin& pin) {
  HostBlock* block = static_cast<HostBlock*>(BlockOf(pin));
  if (block == nullptr) block = blocks_.Find(pin.key());
  if (block != nullptr && block->hits < UINT32_MAX) ++block->hits;
}

std::vector<const HostBlock*> BlockIndex::Touch(std::span<const Pin* const> run,
                                                const ReuseHint& hint) {
  std::vector<const HostBlock*> in_host;
  in_host.reserve(run.size());
  const absl::Time now = Now();
  for (GpuBlocks* const pool : pools_) pool->AdvanceTo(now);
  const HostOrder* advanced = nullptr;
  for (auto pin = run.rbegin(); pin != run.rend(); ++pin) {
    const BlockKey& key = (*pin)->key();
    if (parts_.disks != nullptr) parts_.disks->Touch(key, hint);
    const auto* const pinned = static_cast<const HostBlock*>(BlockOf(**pin));
    const HostBlock* const block = pinned != nullptr ? pinned : Find(key);
    if (block != nullptr && !block->is_condemned) {
      HostOrder& order = OrderOf(*block);
      if (std::exchange(advanced, &order) != &order) order.AdvanceTo(now);
      order.Touch(block->place, block->slot, hint);
      in_host.push_back(block);
    }
    for (GpuBlocks* const pool : pools_) pool->Touch(key, hint);
  }
  std::ranges::reverse(in_host);
  return in_host;
}

size_t BlockIndex::Advise(std::span<const BlockKey> run, const ReuseHint& hint) {
  size_t advised = 0;
  for (const BlockKey& key : run) {
    const HostBlock* const block = Find(key);
    if (block != nullptr) OrderOf(*block).Advise(block->place, hint);
    if (block != nullptr || In(Tier::kGpu, key)) ++advised;
    for (GpuBlocks* const pool : pools_) pool->Advise(key, hint);
  }
  return advised;
}

std::optional<BlockKey> BlockIndex::FirstToLeaveHost(DomainId domain) {
  return OrderNow(domain).Victim();
}

EvictionSummary BlockIndex::SummaryOf(Tier tier) const {
  KVT_CHECK(tier != Tier::kDisk);
  EvictionSummary summary;
  const auto add = [&summary](const EvictionOrder& order) {
    summary.policy = order.policy();
    summary.Add(order.Summary());
  };
  if (tier == Tier::kHost) {
    for (size_t i = 0; i < host_.size(); ++i) {
      if (!dropped_.contains(static_cast<DomainId>(i))) add(host_[i]->order());
    }
  } else {
    for (const GpuBlocks* const pool : pools_) add(pool->order());
  }
  return summary;
}

std::vector<BlockKey> BlockIndex::VictimsInHost(DomainId domain, uint64_t slot_bytes,
                                                const SlotPool& slots) {
  return OrderNow(domain).VictimsFor(slot_bytes, slots);
}

size_t BlockIndex::blocks_in(Tier tier) const {
  size_t in_pools = 0;
  switch (tier) {
    case Tier::kGpu:
      for (const GpuBlocks* const pool : pools_) in_pools += pool->size();
      return in_pools;
    case Tier::kHost:
      return blocks_.size();
    case Tier::kDisk:
      break;
  }
  return parts_.disks == nullptr ? 0 : parts_.disks->block_count();
}

size_t BlockIndex::copies() const {
  size_t copies = 0;
  for (const Tier tier : kAllTiers) copies += blocks_in(tier);
  return copies;
}

std::vector<Delta> BlockIndex::Snapshot() const {
  std::vector<Delta> deltas;
  for (SnapshotPlace at; SnapshotFrom(&at, SIZE_MAX, &deltas);) {
  }
  std::sort(deltas.begin(), deltas.end(), [](const Delta& a, const Delta& b) {
    return std::tie(a.key, a.tier) < std::tie(b.key, b.tier);
  });
  return deltas;
}

bool BlockIndex::SnapshotFrom(SnapshotPlace* at, size_t limit, std::vector<Delta>* deltas) const {
  const auto add = [&](Tier tier, const BlockKey& key) {
    deltas->push_back({.kind = Delta::Kind::kAdd, .tier = tier, .key = key});
  };
  if (!at->is_past_host) {
    at->is_past_host = !blocks_.ForEachFrom(
        &at->host, limit, [&](const HostBlock& block) { add(Tier::kHost, block.meta.key); });
    return !at->is_past_host || parts_.disks != nullptr;
  }
  std::vector<BlockKey> keys;
  const bool more = parts_.disks->KeysFrom(&at->disks, limit, &keys);
  for (const BlockKey& key : keys) add(Tier::kDisk, key);
  return more;
}

void BlockIndex::Audit() const {
  member_pins_.Audit();
  uint64_t pinned = 0;
  uint64_t padding = 0;
  size_t held = 0;
  blocks_.ForEach([&](const HostBlock& block) {
    padding += block.slot.slot_bytes() - block.meta.length;
    KVT_CHECK(Find(block.meta.key) == &block);
    KVT_CHECK(block.slot && block.offset == block.slot.offset().value);
    KVT_CHECK(host_order(block.slot.domain()).KeyOf(block.place) == block.meta.key);
    if (block.pins > 0) pinned += block.meta.length;
    if (block.pins > 0 || block.kept != KeptNumber{}) ++held;
  });
  for (const HostBlock* const block : condemned_) {
    KVT_CHECK(block->is_condemned && block->pins > 0 && Find(block->meta.key) != block);
    pinned += block->meta.length;
  }
  KVT_CHECK(pinned == pinned_bytes() && padding == padding_bytes_);
  size_t ordered = 0;
  size_t held_in_orders = 0;
  for (const std::optional<HostOrder>& order : host_) {
    if (!order.has_value()) continue;
    order->Audit();
    ordered += order->size();
    held_in_orders += order->order().held();
  }
  KVT_CHECK(ordered == blocks_.size() && held_in_orders == held);
}

}  // namespace kvtier
