// TenantKeys knows the keys of the tenants of one open disk: which cipher seals a tenant's records,
// and which cipher opens a record with a KeyId. A key is made of the mounted secret and the
// tenant's salt (docs/design/disk_encryption.md). Salts are read and not kept, so Destroy() leaves
// nothing behind here.
//
// Pure: reads and stores nothing. The caller keeps the rows of the salts, and erases a row before
// it reports that a tenant is gone. Executor thread only; the ciphers that it returns may go to any
// thread, and keep their keys until they are destroyed. Invariant, checked by Audit(): the ids of
// all keys of all tenants, and no others, lead back to their tenants.
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

// Returns a number for the superblock that identifies the right secret and reveals nothing else of
// it. REQUIRES: nothing in `disk` is zero.
uint64_t KeyCheckOf(const KeyMaterial& material, const DiskIdentity& disk);

// Mounted secret with which a disk was last opened.
enum class Master { kCurrent, kPrevious };
// Returns which of the two secrets `key_check`, from the disk's superblock, was made of. kPrevious:
// the secret was rotated; store the check of the current one. Errors: kFailedPrecondition, neither:
// the wrong secret is mounted, and it opens nothing on the disk.
absl::StatusOr<Master> MasterOf(uint64_t key_check, const MasterSecret& secret,
                                const DiskIdentity& disk);

class TenantKeys {
 public:
  // Makes an empty set. Several disks share one secret in memory. REQUIRES: nothing in `disk` and
  // `opening` is zero; `opening` was drawn for this opening and no other.
  TenantKeys(std::shared_ptr<const MasterSecret> secret, const DiskIdentity& disk,
             const OpeningId& opening);

  // Makes the keys of a tenant: a new one, whose salt's row is durable, or one that the manifest
  // knows. Errors: kInvalidArgument, the name; kAlreadyExists, the tenant has a salt, or the salt
  // gives key ids that are taken (draw again); kResourceExhausted, there are kMaxDiskTenants
  // already.
  absl::Status Add(const TenantSalt& salt);

  // Removes a tenant's keys. Once the row of its salt is gone too, no record of it opens again, in
  // this process or any other. Errors: kNotFound, no such tenant.
  absl::Status Destroy(absl::string_view tenant);

  // Returns the cipher for new records. Errors: kNotFound, the tenant has no salt: none was added,
  // or it was destroyed.
  absl::StatusOr<RecordCipher> CipherToSeal(absl::string_view tenant) const;
  // Returns the cipher for a record that is here. Errors: kNotFound, no tenant's key has that id:
  // its tenant was destroyed, or its secret is no longer mounted. The record is then a miss for
  // ever.
  absl::StatusOr<RecordCipher> CipherToOpen(KeyId key_id) const;

  // Returns the cipher for sealing an existing record again: its tenant's cipher for new records.
  // Errors: as CipherToOpen().
  absl::StatusOr<RecordCipher> CipherToSealAgain(KeyId key_id) const;
  // Returns whether CipherToOpen() finds a cipher.
  bool Opens(KeyId key_id) const { return owners_.contains(key_id); }
  // Returns the ids of the tenant's keys; none if there is no such tenant.
  std::vector<KeyId> IdsOf(absl::string_view tenant) const;

  size_t size() const { return tenants_.size(); }
  void Audit() const;

 private:
  struct Tenant {
    RecordCipher current;
    std::optional<RecordCipher> previous;  // Cipher of the previous secret, if one is mounted.
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
