#include "tier_disk/log/room_shares.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

// Returns kInvalidArgument if the share is not as TierShare requires.
absl::Status ValidateShare(const TierShare& share) {
  if (share.guaranteed > share.maximum) {
    return absl::InvalidArgumentError(
        absl::StrCat("disk share: guaranteed bytes are ", share.guaranteed,
                     "; must be at most the maximum, ", share.maximum));
  }
  if (share.weight < 1 || share.weight > kMaxShareWeight) {
    return absl::InvalidArgumentError(
        absl::StrCat("disk share: weight is ", share.weight, "; must be 1 to ", kMaxShareWeight));
  }
  return absl::OkStatus();
}

}  // namespace

void TenantRoom::Add(const TenantRoom& other) {
  const auto sum = [](uint64_t a, uint64_t b) { return b > UINT64_MAX - a ? UINT64_MAX : a + b; };
  used_bytes += other.used_bytes;
  guaranteed_bytes += other.guaranteed_bytes;
  maximum_bytes = sum(maximum_bytes, other.maximum_bytes);
  fair_bytes += other.fair_bytes;
  evictions += other.evictions;
  evictions_suffered += other.evictions_suffered;
  evictions_caused += other.evictions_caused;
}

absl::Status RoomShares::Validate(std::span<const OwnerShare> shares, uint64_t divided_bytes) {
  uint64_t left = divided_bytes;
  for (const OwnerShare& named : shares) {
    if (!named.share.has_value()) continue;
    KVT_RETURN_IF_ERROR(ValidateShare(*named.share));
    if (named.share->guaranteed > left) {
      return absl::InvalidArgumentError(absl::StrCat(
          "disk shares: guaranteed bytes are ", named.share->guaranteed, "; must be at most the ",
          left, " left of ", divided_bytes, " that can be guaranteed"));
    }
    left -= named.share->guaranteed;
  }
  return absl::OkStatus();
}

absl::Status RoomShares::Set(std::span<const OwnerShare> shares, const RecordIndex& index) {
  KVT_RETURN_IF_ERROR(Validate(shares, divided_bytes_));
  uint64_t left = divided_bytes_;
  uint64_t defaults = 0;
  for (const OwnerShare& named : shares) {
    if (named.share.has_value()) {
      left -= named.share->guaranteed;
    } else {
      ++defaults;
    }
  }
  absl::flat_hash_set<TenantTag> kept;
  for (auto& [owner, tenant] : tenants_) {
    tenant.share = {};
    if (index.BytesOf(owner) > 0) kept.insert(owner);
  }
  for (const OwnerShare& named : shares) {
    // Without a share of its own, a tenant gets an equal part of the rest.
    tenants_[named.owner].share =
        named.share.has_value() ? *named.share : TierShare{.guaranteed = left / defaults};
    kept.insert(named.owner);
  }
  absl::erase_if(tenants_, [&](const auto& known) { return !kept.contains(known.first); });
  return absl::OkStatus();
}

uint64_t RoomShares::MaximumOf(TenantTag owner) const {
  const auto found = tenants_.find(owner);
  return found == tenants_.end() ? UINT64_MAX : found->second.share.maximum;
}

void RoomShares::BeginReclaim() {
  for (auto& [owner, tenant] : tenants_) tenant.unpaid = std::min(tenant.unpaid, segment_bytes_);
}

void RoomShares::NoteEviction(TenantTag owner, uint64_t bytes) {
  Tenant& victim = tenants_[owner];
  ++victim.evictions;
  Tenant* cause = &victim;
  if (victim.unpaid == 0) {
    for (auto& [other, tenant] : tenants_) {
      if (tenant.unpaid > cause->unpaid) cause = &tenant;
    }
  }
  cause->unpaid -= std::min(cause->unpaid, bytes);
  if (cause == &victim) return;
  ++victim.suffered;
  ++cause->caused;
}

std::vector<ShareClaim> RoomShares::ClaimsOf(std::span<const OwnedBytes> owners) const {
  std::vector<ShareClaim> claims;
  claims.reserve(owners.size());
  for (const OwnedBytes& owned : owners) {
    const auto found = tenants_.find(owned.owner);
    claims.push_back({.share = found == tenants_.end() ? TierShare{} : found->second.share,
                      .wanted = owned.bytes});
  }
  return claims;
}

Allowances RoomShares::MayTake(const RecordIndex& index, TakeFrom take_from) const {
  const std::vector<OwnedBytes> owners = index.Owners();
  const std::vector<uint64_t> fair = FairShares(divided_bytes_, ClaimsOf(owners));
  uint64_t furthest = 0;
  for (size_t i = 0; i < owners.size(); ++i) {
    furthest = std::max(furthest, owners[i].bytes - fair[i]);
  }
  Allowances allowances;
  for (size_t i = 0; i < owners.size(); ++i) {
    const uint64_t over = owners[i].bytes - fair[i];
    const bool may_take = take_from == TakeFrom::kAllOver || furthest - over < segment_bytes_;
    if (may_take && over > 0) allowances.Set(owners[i].owner, over);
  }
  return allowances;
}

std::vector<TenantRoom> RoomShares::Report(const RecordIndex& index) const {
  std::vector<OwnedBytes> owners;
  owners.reserve(tenants_.size());
  for (const auto& [owner, tenant] : tenants_) {
    owners.push_back({.owner = owner, .bytes = index.BytesOf(owner)});
  }
  std::vector<ShareClaim> claims = ClaimsOf(owners);
  std::vector<TenantRoom> rooms;
  rooms.reserve(owners.size());
  for (size_t i = 0; i < owners.size(); ++i) {
    const Tenant& tenant = tenants_.at(owners[i].owner);
    claims[i].wanted = UINT64_MAX;
    rooms.push_back({.owner = owners[i].owner,
                     .used_bytes = owners[i].bytes,
                     .guaranteed_bytes = tenant.share.guaranteed,
                     .maximum_bytes = tenant.share.maximum,
                     .fair_bytes = FairShares(divided_bytes_, claims)[i],
                     .evictions = tenant.evictions,
                     .evictions_suffered = tenant.suffered,
                     .evictions_caused = tenant.caused});
    claims[i].wanted = owners[i].bytes;
  }
  return rooms;
}

}  // namespace kvtier
