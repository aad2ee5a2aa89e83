// HKDF-SHA-256 (RFC 5869): many keys out of one. Extract makes a key of material
// that need not look random; Expand makes others of that key, each told apart by its
// `info`. Infos of ours begin with a tag that carries a version and ends in a NUL, so
// that none is the beginning of another.
//
// Pure, any thread. No state of a call outlives it.
#ifndef KVTIER_TIER_DISK_CIPHER_HKDF_H_
#define KVTIER_TIER_DISK_CIPHER_HKDF_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tier_disk/cipher/secret_key.h"

namespace kvtier {

inline constexpr size_t kMaxHkdfBytes = 255 * SecretKey::kBytes;  // Of one Expand (RFC 5869, 2.3).

// REQUIRES: `material` is not empty. `salt` may be.
SecretKey HkdfExtract(std::span<const uint8_t> salt, std::span<const uint8_t> material);

// REQUIRES: `out` has 1 to kMaxHkdfBytes bytes.
void HkdfExpand(const SecretKey& key, std::span<const uint8_t> info, std::span<uint8_t> out);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_HKDF_H_
