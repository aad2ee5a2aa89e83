// Encrypts with AES-256-GCM (NIST SP 800-38D), with nonces of 96 and tags of 128 bits. It hides
// bytes and proves them, and proves associated data that is in the clear. It knows no records. The
// caller must keep the law of the nonce: never seal two messages under one key and one nonce.
// Breaking the law once reveals both messages, and lets an attacker forge any other message under
// that key.
//
// Pure, any thread. No state of a call outlives it, not even the key's schedule.
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

// Key, nonce and associated data of one message.
struct GcmInput {
  const SecretKey& key;
  GcmNonce nonce;
  std::span<const uint8_t> associated;
};

// Maximum size of one message; the library counts in int.
inline constexpr size_t kMaxGcmBytes = size_t{1} << 30;

// Seals a message. REQUIRES, also for OpenGcm(): `out` is as long as the message, and is either the
// same bytes (in place) or does not overlap them; at most kMaxGcmBytes.
GcmTag SealGcm(const GcmInput& input, std::span<const std::byte> plain, std::span<std::byte> out);

// Opens a message. Returns false if the tag does not match key, nonce, associated data and
// `sealed`; `out` is then wiped, so that unproven bytes reach no caller.
[[nodiscard]] bool OpenGcm(const GcmInput& input, std::span<const std::byte> sealed,
                           const GcmTag& tag, std::span<std::byte> out);

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_AES_GCM_H_
