// Implements DiskTier's tenants: a salt for each new one, and the destruction of a tenant's key
// (docs/design/disk_encryption.md, "Erasure").
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "tier_disk/disk_state.h"

namespace kvtier {
namespace {

// Number of blocks erased in one batch, and in one turn of the executor.
constexpr size_t kDroppedPerBatch = 256;

}  // namespace

Task<absl::StatusOr<RecordCipher>> DiskTier::State::CipherToPut(std::string tenant) {
  while (true) {
    if (erasing.contains(tenant)) {
      co_return absl::AbortedError(absl::StrCat("tenant '", tenant, "' is being erased"));
    }
    absl::StatusOr<RecordCipher> cipher = keys->CipherToSeal(tenant);
    if (cipher.ok()) co_return cipher;
    const auto salted = salting.find(tenant);
    if (salted == salting.end()) {
      KVT_CO_RETURN_IF_ERROR(co_await MakeSalt(tenant));
      continue;
    }
    const std::shared_ptr<SharedOutcome> outcome = salted->second;
    co_await outcome->done.WaitUntil(absl::InfiniteFuture());
    KVT_CO_RETURN_IF_ERROR(outcome->status);
  }
}

Task<absl::Status> DiskTier::State::MakeSalt(std::string tenant) {
  KVT_CO_RETURN_IF_ERROR(ValidateTenantName(tenant));
  if (keys->size() + salting.size() >= kMaxDiskTenants) {
    co_return absl::ResourceExhaustedError(
        absl::StrCat("tenant '", tenant, "': ", kMaxDiskTenants, " tenants are on this disk"));
  }
  const auto outcome = std::make_shared<SharedOutcome>(executor);
  salting.emplace(tenant, outcome);
  const TenantSalt salt = DrawTenantSalt(tenant);
  ManifestBatch batch;
  batch.salts.push_back(salt);
  // The salt must be durable before any record is sealed with it: without its salt a record is
  // lost.
  outcome->status = co_await commits.Commit(std::move(batch));
  if (outcome->status.ok()) outcome->status = keys->Add(salt);
  salting.erase(tenant);
  outcome->done.Set();
  co_return outcome->status;
}

Task<absl::StatusOr<uint64_t>> DiskTier::EraseTenant(std::string tenant) {
  State& state = *state_;
  KVT_CHECK(state.log.has_value());
  if (state.keys == nullptr) {
    co_return absl::FailedPreconditionError(absl::StrCat(
        "tenant '", tenant, "': payloads are not sealed, so there is no key to destroy"));
  }
  KVT_CO_RETURN_IF_ERROR(ValidateTenantName(tenant));
  // CipherToPut() refuses a tenant that is in the set, so nothing new is sealed for it.
  if (!state.erasing.insert(tenant).second) {
    co_return absl::AbortedError(absl::StrCat("tenant '", tenant, "' is being erased already"));
  }
  if (const auto salted = state.salting.find(tenant); salted != state.salting.end()) {
    const std::shared_ptr<SharedOutcome> outcome = salted->second;
    co_await outcome->done.WaitUntil(absl::InfiniteFuture());
  }
  const absl::Status erased = co_await state.manifest->EraseSalt(tenant);
  if (!erased.ok()) state.disk->CommitFailed(erased);
  // Continues after an error, too: it is then unknown whether the row is there, and nothing may be
  // sealed with a salt that might not come back.
  std::vector<KeyId> key_ids = state.keys->IdsOf(tenant);
  state.keys->Destroy(tenant).IgnoreError();  // kNotFound if an earlier call was cut short.
  const uint64_t dropped = co_await state.DropSealedUnder(std::move(key_ids));
  state.erasing.erase(tenant);
  if (erased.ok()) {
    state.half_erased.erase(tenant);
    co_return dropped;
  }
  state.half_erased.insert(tenant);
  co_return absl::Status(erased.code(),
                         absl::StrCat(erased.message(), "; ", dropped,
                                      " of its blocks are dropped, but its key may be "
                                      "back after a restart; erase it again"));
}

bool DiskTier::KnowsTenant(const std::string& tenant) const {
  KVT_CHECK(state_->log.has_value());
  if (state_->keys == nullptr) return false;
  return state_->half_erased.contains(tenant) || state_->salting.contains(tenant) ||
         !state_->keys->IdsOf(tenant).empty();
}

Task<uint64_t> DiskTier::State::DropSealedUnder(std::vector<KeyId> key_ids) {
  const auto theirs = [&](const BlockKey& key) {
    const std::optional<DiskEntry> entry = index.Find(key);
    return entry.has_value() &&
           std::find(key_ids.begin(), key_ids.end(), entry->block.key_id) != key_ids.end();
  };
  std::vector<BlockKey> keys_here = index.Keys();
  std::erase_if(keys_here, [&](const BlockKey& key) { return !theirs(key); });
  // Reversed, because in the log parents come before their children, and must be removed after
  // them.
  std::reverse(keys_here.begin(), keys_here.end());
  uint64_t dropped = 0;
  for (size_t next = 0; next < keys_here.size();) {
    ManifestBatch batch;
    for (; next < keys_here.size() && batch.erases.size() < kDroppedPerBatch; ++next) {
      if (!theirs(keys_here[next])) continue;  // A get found meanwhile that it has no key.
      Unpublish(keys_here[next]);
      batch.erases.push_back(keys_here[next]);
    }
    dropped += batch.erases.size();
    // If this fails, the rows are dropped at the next start because their key is missing.
    (co_await commits.Commit(std::move(batch))).IgnoreError();
  }
  co_return dropped;
}

}  // namespace kvtier
