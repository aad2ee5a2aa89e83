// DiskSet's tenants: one that is to be forgotten is forgotten by every disk.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tier_disk/disk_set_state.h"

namespace kvtier {

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
    if (!disk->serving) {  // It might never answer.
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
