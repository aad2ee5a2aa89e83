// DiskSet's tenants: one that is to be forgotten is forgotten by every disk.
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "tier_disk/disk_set_state.h"

namespace kvtier {

Task<absl::StatusOr<uint64_t>> DiskSet::EraseTenant(std::string tenant) {
  KVT_CHECK(open_);
  if (!erasing_.insert(tenant).second) {
    co_return absl::AbortedError(absl::StrCat("tenant '", tenant, "' is being erased already"));
  }
  uint64_t dropped = 0;
  absl::Status result;
  for (size_t i = 0; i < disks_.size(); ++i) {
    Disk* const disk = disks_[i].get();
    if (!disk->serving) {  // It might never answer.
      result.Update(absl::UnavailableError(
          absl::StrCat("disk ", disk->id.ToHex(), " is out of service: it still has the key of '",
                       tenant, "'; call again when it is back")));
      continue;
    }
    const absl::StatusOr<uint64_t> erased = co_await disk->tier->EraseTenant(tenant);
    result.Update(erased.status());
    dropped += erased.ok() ? *erased : 0;
  }
  erasing_.erase(tenant);
  if (!result.ok()) co_return result;
  co_return dropped;
}

}  // namespace kvtier
