// TenantSalt is the random half of a tenant's key; the mounted secret is the other half. Without
// one of the two there is no key, so deleting the salt destroys the tenant's data. This header also
// has the form of a salt in the manifest: a row with a checksum, in the manner of manifest_value.h.
//
//   't' name  ->  version:u8 (=1) zero:7 salt:32 check:u64
#ifndef KVTIER_TIER_DISK_CIPHER_TENANT_SALT_H_
#define KVTIER_TIER_DISK_CIPHER_TENANT_SALT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tier_disk/cipher/secret_key.h"

namespace kvtier {

inline constexpr uint8_t kTenantSaltVersion = 1;
inline constexpr size_t kMaxTenantNameBytes = 63;

// Checks the length of a name. Errors: kInvalidArgument, naming the name: not 1 to 63 bytes. The
// agent decides which bytes a name may have.
absl::Status ValidateTenantName(absl::string_view name);

struct TenantSalt {
  std::string tenant;
  SecretKey salt;  // Wiped like a key: with the mounted secret it is one.
};

// Draws a fresh salt for a tenant that has none.
TenantSalt DrawTenantSalt(absl::string_view tenant);

// Prefix of the keys of all salts' rows, and of no other rows.
inline constexpr absl::string_view kTenantRowPrefix = "t";
std::string TenantSaltRowKey(absl::string_view tenant);
// Returns the row's value. It holds the salt: wipe or drop it soon.
std::string EncodeTenantSalt(const TenantSalt& salt);

// Decodes a row. Errors: kDataLoss, the row is invalid (key form, version, size, checksum over key
// and value).
absl::StatusOr<TenantSalt> DecodeTenantSalt(absl::string_view row_key, absl::string_view value);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_TENANT_SALT_H_
