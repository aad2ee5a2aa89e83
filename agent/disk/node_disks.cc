#include "agent/disk/node_disks.h"

#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/event.h"
#include "core/log.h"
#include "core/status_macros.h"

namespace kvtier {
NodeDisks::NodeDisks(const std::vector<DiskSeam>& disks, const DiskWriteOptions& writes,
                     EvictionPolicy eviction, const Parts& parts)
    : parts_(parts) {
  if (disks.empty()) return;
  std::vector<DiskSet::Member> members;
  for (const DiskSeam& seam : disks) {
    Member& made = members_.emplace_back();
    made.id = seam.id;
    made.disk = seam.disk;
    sealed_ = seam.keys != nullptr;
    made.watched = std::make_unique<WatchedDisk>(parts.executor, parts.scope, seam.disk);
    made.tier = std::make_unique<DiskTier>(
        parts.executor, parts.byte_threads, made.watched.get(), seam.manifest,
        [this, member = members.size()](DiskTier::Change change, const BlockKey& key,
                                        TenantTag owner) {
          set_->TierChanged(member, change, key, owner);
        },
        DiskTierOptions{.keys = seam.keys, .eviction = eviction});
    members.push_back({.id = seam.id, .tier = made.tier.get(), .disk = made.watched.get()});
  }
  set_ = std::make_unique<DiskSet>(parts.executor, parts.scope, members,
                                   [this](DiskSet::Change change, const BlockKey& key,
                                          TenantTag owner) { Tell(change, key, owner); });
  admission_ = std::make_unique<DiskAdmission>(writes, set_.get());
  promises_ = std::make_unique<DiskPromises>(parts.executor, parts.waits, *parts.host, parts.stats);
}

void NodeDisks::Tell(DiskSet::Change change, const BlockKey& key, TenantTag owner) const {
  const Delta::Kind kind =
      change == DiskSet::Change::kAdded ? Delta::Kind::kAdd : Delta::Kind::kRemove;
  parts_.changes->Tell({.delta = {.kind = kind, .tier = Tier::kDisk, .key = key},
                        .domain = parts_.tenants->DomainOf(owner)});
}

Task<absl::StatusOr<DiskSet::Recovery>> NodeDisks::Open(uint64_t scrub_bytes_per_second) {
  if (set_ == nullptr) co_return recovery_;
  std::vector<OwnerShare> shares;
  for (const Tenant* const tenant : parts_.tenants->All()) {
    shares.push_back({.owner = TenantTagOf(tenant->name)});
  }
  KVT_CO_RETURN_IF_ERROR(set_->SetShares(shares));
  const absl::Time deadline =
      members_.size() == 1 ? absl::InfiniteFuture() : parts_.executor->Now() + kDiskOpenTimeout;
  recovery_ = co_await set_->Open(deadline);
  co_await PinHostMemory();
  TellRecovered();
  set_->StartScrub(scrub_bytes_per_second);
  co_return recovery_;
}

void NodeDisks::TellRecovered() {
  const std::vector<BlockKey> keys = set_->Keys();
  std::vector<TenantTag> owners;
  owners.reserve(keys.size());
  std::vector<uint64_t> blocks(parts_.host->domain_count());
  for (const BlockKey& key : keys) {
    owners.push_back(*set_->OwnerOf(key));
    const std::optional<DomainId> domain = parts_.tenants->DomainOf(owners.back());
    if (domain.has_value()) ++blocks[static_cast<size_t>(*domain)];
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    parts_.residency->Expect(static_cast<DomainId>(i), blocks[i]);
  }
  for (size_t i = 0; i < keys.size(); ++i) Tell(DiskSet::Change::kAdded, keys[i], owners[i]);
}

void NodeDisks::AddDomain(const Tenant& tenant) {
  if (set_ == nullptr) return;
  promises_->AddDomain(parts_.host->slots(tenant.domain).capacity_bytes());
  if (set_->block_count() == 0) return;
  ++telling_;
  parts_.scope->Spawn(TellOwned(TenantTagOf(tenant.name), tenant.domain));
}

void NodeDisks::DropDomain(DomainId domain) {
  if (promises_ != nullptr) promises_->DropDomain(domain);
}

Task<void> NodeDisks::TellOwned(TenantTag owner, DomainId domain) {
  bool more = true;
  for (DiskWalk at; more && !parts_.waits->ended();) {
    co_await SleepUntil(parts_.executor, parts_.executor->Now());
    std::vector<BlockKey> keys;
    more = set_->KeysFrom(&at, kDiskKeysPerTurn, &keys);
    // Blocks that come meanwhile are reported as they come.
    for (const BlockKey& key : keys) {
      if (set_->OwnerOf(key) == owner && parts_.tenants->DomainOf(owner) == domain) {
        Tell(DiskSet::Change::kAdded, key, owner);
      }
    }
  }
  --telling_;
}

Task<void> NodeDisks::PinHostMemory() {
  std::vector<std::span<std::byte>> slabs;
  for (size_t i = 0; i < parts_.host->domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const SlotPool& slots = parts_.host->slots(domain);
    for (uint32_t slab = 0; slab < slots.slab_count(); ++slab) {
      if (slots.IsPresent(slab)) slabs.push_back(parts_.host->BytesOf(domain, slab));
    }
  }
  absl::Status pinned;
  for (size_t i = 0; i < members_.size(); ++i) {
    // A disk that did not open might not answer this call either.
    if (recovery_.disks[i].ok()) pinned.Update(co_await members_[i].disk->AddMemory(slabs));
  }
  if (pinned.ok()) co_return;
  Log(LogLevel::kWarning,
      absl::StrCat("disk I/O costs more CPU than it could: ", pinned.message(),
                   "; raise RLIMIT_MEMLOCK to cover the host tier once for each disk, or give the ",
                   "agent CAP_IPC_LOCK"));
}

Task<void> NodeDisks::AddMemory(std::span<std::byte> memory) {
  const std::vector<std::span<std::byte>> regions(1, memory);
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!recovery_.disks[i].ok()) continue;
    // The warning of PinHostMemory() holds for this, too.
    (co_await members_[i].disk->AddMemory(regions)).IgnoreError();
  }
}

Task<void> NodeDisks::RemoveMemory(std::span<std::byte> memory) {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (recovery_.disks[i].ok()) co_await members_[i].disk->RemoveMemory(memory);
  }
}

EvictionSummary NodeDisks::Eviction() const {
  EvictionSummary summary;
  for (const Member& member : members_) {
    const EvictionSummary one = member.tier->eviction();
    summary.policy = one.policy;
    summary.Add(one);
  }
  return summary;
}

void NodeDisks::StopScrub() {
  if (set_ != nullptr) set_->StopScrub();
}

Task<bool> NodeDisks::Idle(absl::Time deadline) {
  if (set_ == nullptr) co_return true;
  co_return co_await set_->Idle(deadline);
}

void NodeDisks::Audit() const {
  if (set_ == nullptr) return;
  set_->Audit();
  if (telling_ == 0) parts_.residency->AuditDisks(*set_);
  promises_->Audit();
}

}  // namespace kvtier
