// TenantKeys knows the tenants of one open disk by their keys: which cipher seals a
// tenant's records, and which opens a record that says its KeyId. A key is made of
// the mounted secret and the tenant's salt (docs/design/disk_encryption.md); salts
// are looked at and not kept, so Destroy() leaves nothing behind here.
//
// Pure: reads and stores nothing; who calls it keeps the salts' rows, and erases a
// row before it says that a tenant is gone. Executor thread only; the ciphers it
// gives out may go to any thread, and keep their keys until they die.
// Invariant, checked by Audit(): the ids of all keys of all tenants, and no others,
// lead back to their tenants.
#ifndef KVTIER_TIER_DISK_CIPHER_TENANT_KEYS_H_
#define KVTIER_TIER_DISK_CIPHER_TENANT_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tier_disk/cipher/disk_identity.h"
#include "tier_disk/cipher/master_secret.h"
#include "tier_disk/cipher/record_cipher.h"
#include "tier_disk/cipher/tenant_salt.h"

namespace kvtier {

inline constexpr size_t kMaxDiskTenants = 4096;

// For the superblock: says that a secret is the right one, and nothing else of it.
// REQUIRES: nothing in `disk` is zero.
uint64_t KeyCheckOf(const KeyMaterial& material, const DiskIdentity& disk);

// Which of the mounted secrets a disk was last opened with.
enum class Master { kCurrent, kPrevious };
// Which secret `key_check`, as the disk's superblock has it, is of. kPrevious: the secret
// was rotated; store the check of the current one. Errors: kFailedPrecondition, it is of
// neither: the wrong secret is mounted, and nothing on the disk can be opened with it.
absl::StatusOr<Master> MasterOf(uint64_t key_check, const MasterSecret& secret,
                                const DiskIdentity& disk);

class TenantKeys {
 public:
  // Several disks share one secret in memory. REQUIRES: nothing in `disk` and `opening`
  // is zero; `opening` was drawn for this opening and no other.
  TenantKeys(std::shared_ptr<const MasterSecret> secret, const DiskIdentity& disk,
             const OpeningId& opening);

  // Makes the keys of a tenant: a new one, whose salt's row is durable, or one that
  // the manifest knows. Errors: kInvalidArgument, the name; kAlreadyExists, the tenant
  // has a salt, or the salt another's key ids (draw again); kResourceExhausted,
  // kMaxDiskTenants are here.
  absl::Status Add(const TenantSalt& salt);

  // Forgets a tenant's keys. No record of it opens again, in this process or any
  // other, once its salt's row is gone too. Errors: kNotFound, no such tenant.
  absl::Status Destroy(absl::string_view tenant);

  // The cipher for new records. Errors: kNotFound, the tenant has no salt: none was
  // added, or it was destroyed.
  absl::StatusOr<RecordCipher> CipherToSeal(absl::string_view tenant) const;
  // The cipher for a record that is here. Errors: kNotFound, no tenant's key has that
  // id: its tenant was destroyed, or its secret is no longer mounted. A miss for ever.
  absl::StatusOr<RecordCipher> CipherToOpen(KeyId key_id) const;

  // The cipher under which a record that is here is sealed anew: its tenant's for new
  // records. Errors: as CipherToOpen().
  absl::StatusOr<RecordCipher> CipherToSealAgain(KeyId key_id) const;
  // True when CipherToOpen() has one.
  bool Opens(KeyId key_id) const { return owners_.contains(key_id); }
  // Of the tenant's keys; none when there is no such tenant.
  std::vector<KeyId> IdsOf(absl::string_view tenant) const;

  size_t size() const { return tenants_.size(); }
  void Audit() const;

 private:
  struct Tenant {
    RecordCipher current;
    std::optional<RecordCipher> previous;  // Where a previous secret is mounted.
  };
  RecordCipher MakeCipher(const KeyMaterial& material, const TenantSalt& salt) const;

  const std::shared_ptr<const MasterSecret> secret_;
  const DiskIdentity disk_;
  const OpeningId opening_;
  absl::flat_hash_map<std::string, Tenant> tenants_;
  absl::flat_hash_map<KeyId, std::string> owners_;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_TENANT_KEYS_H_
