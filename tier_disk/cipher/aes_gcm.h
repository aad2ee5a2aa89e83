// AES-256-GCM (NIST SP 800-38D) with nonces of 96 and tags of 128 bits: hides bytes
// and proves them, and proves associated data that travels in the clear. It knows no
// records; who calls it answers for the law of the nonce: never two messages under
// one key and one nonce. Breaking it once gives away both messages, and the power to
// forge any other under that key.
//
// Pure, any thread. No state of a call outlives it, the key's schedule included.
#ifndef KVTIER_TIER_DISK_CIPHER_AES_GCM_H_
#define KVTIER_TIER_DISK_CIPHER_AES_GCM_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tier_disk/cipher/secret_key.h"

namespace kvtier {

struct GcmNonce {
  std::array<uint8_t, 12> bytes{};
  friend auto operator<=>(const GcmNonce&, const GcmNonce&) = default;
};

struct GcmTag {
  std::array<uint8_t, 16> bytes{};
  friend bool operator==(const GcmTag&, const GcmTag&) = default;
};

// What one message is sealed under.
struct GcmInput {
  const SecretKey& key;
  GcmNonce nonce;
  std::span<const uint8_t> associated;
};

inline constexpr size_t kMaxGcmBytes = size_t{1} << 30;  // Of one message; the library's int.

// REQUIRES of both: `out` is as long as the message and is either the same bytes (in
// place) or apart from them; at most kMaxGcmBytes.
GcmTag SealGcm(const GcmInput& input, std::span<const std::byte> plain, std::span<std::byte> out);

// False: the tag is not that of key, nonce, associated data and `sealed`. `out` is
// wiped then: bytes that proved nothing reach nobody. [[nodiscard]] for a reason.
[[nodiscard]] bool OpenGcm(const GcmInput& input, std::span<const std::byte> sealed,
                           const GcmTag& tag, std::span<std::byte> out);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_AES_GCM_H_
