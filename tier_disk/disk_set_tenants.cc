// Implements DiskSet's tenants: the share of each on all disks, and erasing a tenant from every
// disk.
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/disk_set_state.h"

namespace kvtier {
namespace {

// Returns `part` of `whole` of the share. The guarantee is rounded down and the maximum up.
TierShare PartOf(TierShare share, uint64_t part, uint64_t whole) {
  const auto scaled = [&](uint64_t bytes, uint64_t more) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(bytes) * part + more) / whole);
  };
  share.guaranteed = scaled(share.guaranteed, 0);
  if (share.maximum != UINT64_MAX) share.maximum = scaled(share.maximum, whole - 1);
  return share;
}

}  // namespace

Task<DiskSet::TenantErasure> DiskSet::EraseTenant(std::string tenant) {
  KVT_CHECK(open_);
  TenantErasure erasure;
  if (!erasing_.insert(tenant).second) {
    erasure.status =
        absl::AbortedError(absl::StrCat("tenant '", tenant, "' is being erased already"));
    co_return erasure;
  }
  for (size_t i = 0; i < disks_.size(); ++i) {
    Disk* const disk = disks_[i].get();
    if (!disk->serving) {  // A call on a disk out of service might never end.
      erasure.status.Update(absl::UnavailableError(
          absl::StrCat("disk ", disk->id.ToHex(), " is out of service: it still has the key of '",
                       tenant, "'; call again when it is back")));
      continue;
    }
    const absl::StatusOr<uint64_t> erased = co_await disk->tier->EraseTenant(tenant);
    erasure.status.Update(erased.status());
    if (!erased.ok()) continue;
    erasure.blocks += *erased;
    ++erasure.disks;
  }
  erasing_.erase(tenant);
  co_return erasure;
}

uint64_t DiskSet::divided_bytes() const {
  uint64_t bytes = 0;
  for (const auto& disk : disks_) bytes += disk->tier->divided_bytes();
  return bytes;
}

absl::Status DiskSet::SetShares(std::span<const OwnerShare> shares) {
  KVT_RETURN_IF_ERROR(RoomShares::Validate(shares, divided_bytes()));
  uint64_t capacity = 0;
  for (const auto& disk : disks_) capacity += disk->tier->capacity_bytes();
  for (const auto& disk : disks_) {
    const uint64_t part = disk->tier->capacity_bytes();
    std::vector<OwnerShare> on_disk(shares.begin(), shares.end());
    for (OwnerShare& named : on_disk) {
      if (named.share.has_value()) named.share = PartOf(*named.share, part, capacity);
    }
    // Cannot fail: guarantees that fit into the whole set, scaled to a disk and rounded down, fit
    // there.
    KVT_CHECK(disk->tier->SetShares(on_disk).ok());
  }
  return absl::OkStatus();
}

std::vector<TenantRoom> DiskSet::Tenants() const {
  absl::btree_map<TenantTag, TenantRoom> by_owner;
  for (const auto& disk : disks_) {
    for (const TenantRoom& room : disk->tier->Tenants()) {
      const auto [sum, is_new] = by_owner.try_emplace(room.owner, room);
      if (!is_new) sum->second.Add(room);
    }
  }
  std::vector<TenantRoom> rooms;
  rooms.reserve(by_owner.size());
  for (const auto& [owner, room] : by_owner) rooms.push_back(room);
  return rooms;
}

absl::StatusOr<bool> DiskSet::KnowsTenant(const std::string& tenant) const {
  absl::Status unsure;
  for (const auto& disk : disks_) {
    if (!disk->recovery.ok()) {
      unsure.Update(absl::UnavailableError(absl::StrCat("disk ", disk->id.ToHex(),
                                                        " is not open: it may have a key of '",
                                                        tenant, "'; call again when it is")));
    } else if (disk->tier->KnowsTenant(tenant)) {
      return true;
    }
  }
  if (!unsure.ok()) return unsure;
  return false;
}

}  // namespace kvtier
