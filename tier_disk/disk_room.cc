// Implements DiskTier's division of its room between tenants (log/room_shares.h).
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tier_disk/disk_state.h"

namespace kvtier {
namespace {

// A tenant at its maximum gives up this fraction of it at a time, so that not every record needs a
// search for blocks to give up.
constexpr uint64_t kMaximumPerTrim = 32;

}  // namespace

absl::Status DiskTier::SetShares(std::span<const OwnerShare> shares) {
  return state_->shares.Set(shares, state_->index);
}

std::vector<TenantRoom> DiskTier::Tenants() const { return state_->shares.Report(state_->index); }

uint64_t DiskTier::divided_bytes() const { return state_->shares.divided_bytes(); }

uint64_t DiskTier::State::BeyondMaximum(TenantTag owner) const {
  const auto found = arriving.find(owner);
  const uint64_t taken = index.BytesOf(owner) + (found == arriving.end() ? 0 : found->second);
  return taken - std::min(taken, shares.MaximumOf(owner));
}

Task<absl::Status> DiskTier::State::DropForMaximum(TenantTag owner) {
  const uint64_t maximum = shares.MaximumOf(owner);
  const uint64_t bytes = BeyondMaximum(owner) + maximum / kMaximumPerTrim;
  std::vector<BlockKey> drop = PlanOwnRoom(
      {.log = &*log, .index = &index, .order = &order, .shares = &shares}, owner, bytes);
  for (const BlockKey& key : drop) {
    shares.NoteOwnEviction(owner);
    Unpublish(key);
  }
  stats.evictions += drop.size();
  ManifestBatch batch{.erases = std::move(drop)};
  // If this fails, the blocks are back after a restart.
  (co_await commits.Commit(std::move(batch))).IgnoreError();
  if (BeyondMaximum(owner) == 0) co_return absl::OkStatus();
  co_return absl::ResourceExhaustedError(
      absl::StrCat("the tenant's maximum of ", maximum, " bytes of the disk is reached"));
}

}  // namespace kvtier
