#include "agent/index/block_index.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/check.h"
#include "core/space.h"

namespace kvtier {
namespace {

// How many cold GPU blocks are passed over in search of one that is elsewhere, too, or of
// some that are not.
constexpr size_t kMaxCopiesLookedFor = 64;

}  // namespace

Pin& Pin::operator=(Pin&& other) noexcept {
  if (this != &other) {
    Release();
    index_ = std::exchange(other.index_, nullptr);
    tier_ = other.tier_;
    block_ = other.block_;
  }
  return *this;
}

void Pin::Release() {
  if (index_ != nullptr) std::exchange(index_, nullptr)->Unpin(tier_, block_);
}

BlockIndex::BlockIndex(size_t domains, Observer observer)
    : observer_(std::move(observer)), host_(domains), erasures_(domains) {}

BlockIndex::Entry& BlockIndex::EntryFor(const BlockMeta& meta) {
  const auto [found, added] = entries_.try_emplace(meta.key);
  if (added) found->second.meta = meta;
  return found->second;
}

void BlockIndex::PublishHost(const BlockMeta& meta, HostSlot slot) {
  Entry& entry = EntryFor(meta);
  KVT_CHECK(!entry.host && slot);
  // An engine may compute the same block twice with bytes that differ in the last
  // bit; the sum kept here is that of the host's bytes (the disk keeps its own).
  entry.meta = meta;
  entry.host = std::move(slot);
  entry.host_hits = 0;
  entry.host_place = HostOrderOf(entry).Insert(meta.key, meta.parent, entry.host);
  TellWorkers(Delta::Kind::kAdd, entry.host.domain(), Tier::kHost, meta.key);
  Changed(Delta::Kind::kAdd, Tier::kHost, meta.key);
}

void BlockIndex::WarmFor(DomainId domain, const BlockKey& key) const {
  entries_.prefetch(key);
  host_.at(static_cast<size_t>(domain)).WarmFor(key);
  if (residency_ != nullptr) residency_->WarmFor(domain, key);
}

void BlockIndex::PublishGpu(const BlockMeta& meta, GpuSlot slot, Arrival arrival) {
  Entry& entry = EntryFor(meta);
  KVT_CHECK(!entry.gpu && slot);
  entry.gpu = std::move(slot);
  entry.gpu_sum = meta.sum;
  gpu_leaves_.Insert(meta.key, meta.parent, arrival);
  gpu_slots_.emplace(entry.gpu.ref().index, meta.key);
  TellWorkers(Delta::Kind::kAdd, gpu_domain_, Tier::kGpu, meta.key);
  Changed(Delta::Kind::kAdd, Tier::kGpu, meta.key);
}

HostSlot BlockIndex::UnpublishHost(const BlockKey& key) {
  Entry& entry = entries_.at(key);
  KVT_CHECK(entry.host && entry.host_pins == 0);
  TellWorkers(Delta::Kind::kRemove, entry.host.domain(), Tier::kHost, key);
  HostOrderOf(entry).Erase(std::exchange(entry.host_place, nullptr), entry.host);
  HostSlot slot = std::move(entry.host);
  Changed(Delta::Kind::kRemove, Tier::kHost, key);
  EraseIfEmpty(key);
  return slot;
}

GpuSlot BlockIndex::UnpublishGpu(const BlockKey& key) {
  Entry& entry = entries_.at(key);
  KVT_CHECK(entry.gpu && entry.gpu_pins == 0);
  TellWorkers(Delta::Kind::kRemove, gpu_domain_, Tier::kGpu, key);
  gpu_leaves_.Erase(key);
  gpu_slots_.erase(entry.gpu.ref().index);
  GpuSlot slot = std::move(entry.gpu);
  Changed(Delta::Kind::kRemove, Tier::kGpu, key);
  EraseIfEmpty(key);
  return slot;
}

void BlockIndex::DiskChanged(Delta::Kind kind, const BlockKey& key, TenantTag owner) {
  if (residency_ != nullptr) {
    // A tenant that this node serves no more has no table.
    const std::optional<DomainId> domain = residency_->DomainOf(owner);
    if (domain.has_value()) TellWorkers(kind, *domain, Tier::kDisk, key);
  }
  observer_({.kind = kind, .tier = Tier::kDisk, .key = key});
}

void BlockIndex::EraseIfEmpty(const BlockKey& key) {
  const auto found = entries_.find(key);
  if (!found->second.host && !found->second.gpu) entries_.erase(found);
}

const BlockIndex::Entry* BlockIndex::Find(const BlockKey& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() ? nullptr : &found->second;
}

bool BlockIndex::In(Tier tier, const BlockKey& key) const {
  if (tier == Tier::kDisk) return disk_ != nullptr && disk_->Contains(key);
  const Entry* entry = Find(key);
  if (entry == nullptr) return false;
  return tier == Tier::kGpu ? static_cast<bool>(entry->gpu) : static_cast<bool>(entry->host);
}

std::optional<Tier> BlockIndex::NearestTier(const BlockKey& key) const {
  for (const Tier tier : kAllTiers) {
    if (In(tier, key)) return tier;
  }
  return std::nullopt;
}

size_t BlockIndex::copies() const {
  size_t copies = 0;
  for (const Tier tier : kAllTiers) copies += blocks_in(tier);
  return copies;
}

size_t BlockIndex::blocks_in(Tier tier) const {
  if (tier == Tier::kDisk) return disk_ == nullptr ? 0 : disk_->block_count();
  return counts_[TierIndex(tier)];
}

std::optional<Pin> BlockIndex::PinIn(Tier tier, const BlockKey& key) {
  KVT_CHECK(tier != Tier::kDisk);
  const auto found = entries_.find(key);
  if (found == entries_.end()) return std::nullopt;
  Entry& entry = found->second;
  const bool in_host = tier == Tier::kHost;
  if (!(in_host ? static_cast<bool>(entry.host) : static_cast<bool>(entry.gpu))) {
    return std::nullopt;
  }
  uint32_t& pins = in_host ? entry.host_pins : entry.gpu_pins;
  if (pins++ == 0) {
    pinned_bytes_[TierIndex(tier)] += entry.meta.length;
    if (in_host) {
      HostOrderOf(entry).Hold(entry.host_place, entry.host);
    } else {
      gpu_leaves_.Hold(key);
    }
  }
  return Pin(this, tier, &entry);
}

void BlockIndex::Unpin(Tier tier, Entry* entry) {
  const bool in_host = tier == Tier::kHost;
  uint32_t& pins = in_host ? entry->host_pins : entry->gpu_pins;
  KVT_CHECK(pins > 0);
  if (--pins > 0) return;
  pinned_bytes_[TierIndex(tier)] -= entry->meta.length;
  if (in_host) {
    HostOrderOf(*entry).Unhold(entry->host_place, entry->host);
  } else {
    gpu_leaves_.Unhold(entry->meta.key);
  }
}

bool BlockIndex::IsPinnedInHost(const BlockKey& key) const {
  const Entry* const entry = Find(key);
  return entry != nullptr && entry->host_pins > 0;
}

void BlockIndex::CountHit(const Pin& pin) {
  Entry& entry = *pin.block_;
  if (entry.host && entry.host_hits < UINT32_MAX) ++entry.host_hits;
}

void BlockIndex::Touch(std::span<const Entry* const> run) {
  for (auto at = run.rbegin(); at != run.rend(); ++at) {
    const Entry& entry = **at;
    if (disk_ != nullptr) disk_->Touch(entry.meta.key);
    if (entry.host) HostOrderOf(entry).Touch(entry.host_place, entry.host);
    if (entry.gpu) gpu_leaves_.Touch(entry.meta.key);
  }
}

std::optional<BlockKey> BlockIndex::ColdestInHost(DomainId domain) const {
  return host_.at(static_cast<size_t>(domain)).Victim();
}

std::vector<BlockKey> BlockIndex::VictimsInHost(DomainId domain, uint64_t slot_bytes,
                                                const SlotPool& slots) {
  return host_.at(static_cast<size_t>(domain)).VictimsFor(slot_bytes, slots);
}

std::optional<BlockKey> BlockIndex::CheapestCopyInGpu() const {
  return gpu_leaves_.VictimWhere(kMaxCopiesLookedFor, [this](const BlockKey& key) {
    return In(Tier::kHost, key) || In(Tier::kDisk, key);
  });
}

std::vector<BlockKey> BlockIndex::CheapestOnlyInGpu(size_t limit) const {
  return gpu_leaves_.VictimsWhere(limit, kMaxCopiesLookedFor, [this](const BlockKey& key) {
    return !In(Tier::kHost, key) && !In(Tier::kDisk, key);
  });
}

std::vector<BlockKey> BlockIndex::UnheldInGpuFrom(uint32_t first, size_t limit) const {
  std::vector<BlockKey> unheld;
  for (auto slot = gpu_slots_.lower_bound(first); slot != gpu_slots_.end() && unheld.size() < limit;
       ++slot) {
    if (entries_.at(slot->second).gpu_pins == 0) unheld.push_back(slot->second);
  }
  return unheld;
}

std::optional<BlockKey> BlockIndex::CheapestInGpu() const { return gpu_leaves_.Victim(); }

size_t BlockIndex::blocks_only_in_gpu() const {
  return std::count_if(gpu_slots_.begin(), gpu_slots_.end(), [this](const auto& slot) {
    return !static_cast<bool>(entries_.at(slot.second).host);
  });
}

uint64_t BlockIndex::gpu_padding_bytes() const {
  uint64_t bytes = 0;
  for (const auto& [slot, key] : gpu_slots_) {
    const uint64_t length = entries_.at(key).meta.length;
    bytes += SlotBytes(length) - length;
  }
  return bytes;
}

std::vector<Delta> BlockIndex::Snapshot() const {
  std::vector<Delta> deltas;
  deltas.reserve(entries_.size() + blocks_in(Tier::kDisk));
  const auto add = [&](Tier tier, const BlockKey& key) {
    deltas.push_back({.kind = Delta::Kind::kAdd, .tier = tier, .key = key});
  };
  for (const auto& [key, entry] : entries_) {
    if (entry.host) add(Tier::kHost, key);
  }
  if (disk_ != nullptr) {
    for (const BlockKey& key : disk_->Keys()) add(Tier::kDisk, key);
  }
  std::sort(deltas.begin(), deltas.end(), [](const Delta& a, const Delta& b) {
    return std::tie(a.key, a.tier) < std::tie(b.key, b.tier);
  });
  return deltas;
}

HostOrder& BlockIndex::HostOrderOf(const Entry& entry) {
  return host_.at(static_cast<size_t>(entry.host.domain()));
}

void BlockIndex::TellWorkers(Delta::Kind kind, DomainId domain, Tier tier, const BlockKey& key) {
  if (residency_ == nullptr) return;
  if (kind == Delta::Kind::kAdd) {
    residency_->Add(domain, tier, key);
  } else {
    residency_->Remove(domain, tier, key);
  }
}

void BlockIndex::Changed(Delta::Kind kind, Tier tier, const BlockKey& key) {
  counts_[TierIndex(tier)] += kind == Delta::Kind::kAdd ? 1 : -1;
  if (tier != Tier::kGpu) observer_({.kind = kind, .tier = tier, .key = key});
}

void BlockIndex::AuditResidency() const {
  if (residency_ == nullptr) return;
  residency_->Audit();
  std::array<size_t, kTierCount> told{};
  const auto expect = [&](DomainId domain, Tier tier, const BlockKey& key) {
    const ResidencyTable* const table = residency_->table(domain);
    if (table == nullptr) return;
    KVT_CHECK(table->Has(key, tier));
    ++told[TierIndex(tier)];
  };
  for (const auto& [key, entry] : entries_) {
    if (entry.host) expect(entry.host.domain(), Tier::kHost, key);
    if (entry.gpu) expect(gpu_domain_, Tier::kGpu, key);
  }
  for (const Tier tier : {Tier::kGpu, Tier::kHost}) {
    KVT_CHECK(residency_->blocks_in(tier) == told[TierIndex(tier)]);
  }
}

void BlockIndex::Audit() const {
  std::array<size_t, kTierCount> counts{};
  std::array<uint64_t, kTierCount> pinned_bytes{};
  size_t in_host = 0;
  for (const auto& [key, entry] : entries_) {
    KVT_CHECK(entry.host || entry.gpu);
    KVT_CHECK(entry.meta.key == key);
    for (const Tier tier : {Tier::kGpu, Tier::kHost})
      counts[TierIndex(tier)] += In(tier, key) ? 1 : 0;
    if (entry.host) {
      KVT_CHECK(host_.at(static_cast<size_t>(entry.host.domain())).Contains(key));
      KVT_CHECK(entry.host_place->key() == key);
    }
    KVT_CHECK(entry.host || entry.host_pins == 0);
    KVT_CHECK(entry.gpu || entry.gpu_pins == 0);
    if (entry.host_pins > 0) pinned_bytes[TierIndex(Tier::kHost)] += entry.meta.length;
    if (entry.gpu_pins > 0) pinned_bytes[TierIndex(Tier::kGpu)] += entry.meta.length;
    if (entry.gpu) {
      KVT_CHECK(gpu_leaves_.Contains(key) && gpu_slots_.at(entry.gpu.ref().index) == key);
    }
  }
  KVT_CHECK(counts == counts_);
  AuditResidency();
  for (const HostOrder& order : host_) {
    order.Audit();
    in_host += order.size();
  }
  gpu_leaves_.Audit();
  KVT_CHECK(in_host == counts_[TierIndex(Tier::kHost)]);
  KVT_CHECK(gpu_leaves_.size() == counts_[TierIndex(Tier::kGpu)]);
  KVT_CHECK(gpu_slots_.size() == counts_[TierIndex(Tier::kGpu)]);
  KVT_CHECK(pinned_bytes == pinned_bytes_);
}

}  // namespace kvtier
