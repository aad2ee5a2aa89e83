// Derives many keys from one with HKDF-SHA-256 (RFC 5869). Extract makes a key of material that
// need not look random; Expand makes other keys of that key, each identified by its `info`. Our
// infos begin with a tag that has a version and ends in a NUL, so none is a prefix of another.
//
// Pure, any thread. No state of a call outlives it.
#ifndef KVTIER_TIER_DISK_CIPHER_HKDF_H_
#define KVTIER_TIER_DISK_CIPHER_HKDF_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tier_disk/cipher/secret_key.h"

namespace kvtier {

// Maximum size of one Expand (RFC 5869, 2.3).
inline constexpr size_t kMaxHkdfBytes = 255 * SecretKey::kBytes;

// Makes a key of `material`. REQUIRES: `material` is not empty. `salt` may be empty.
SecretKey HkdfExtract(std::span<const uint8_t> salt, std::span<const uint8_t> material);

// Fills `out` with the key for `info`. REQUIRES: `out` has 1 to kMaxHkdfBytes bytes.
void HkdfExpand(const SecretKey& key, std::span<const uint8_t> info, std::span<uint8_t> out);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_HKDF_H_
