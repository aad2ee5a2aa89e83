// HmacSha256 is HMAC-SHA-256 (RFC 2104) of messages whose first 64 bytes are always the same.
#ifndef KVTIER_CORE_HMAC_SHA256_H_
#define KVTIER_CORE_HMAC_SHA256_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "core/sha256.h"
#include "core/sha256_lanes.h"

namespace kvtier {

using HmacKey = std::array<uint8_t, 32>;

// The two blocks that begin the hashes of an HMAC: the key, zero-padded and XORed with a constant.
Sha256Block InnerPadOf(const HmacKey& key);
Sha256Block OuterPadOf(const HmacKey& key);

// Thread-compatible. Key and first block are hashed once, when the object is made; copying their
// states costs half of duplicating an EVP_MAC context.
class HmacSha256 {
 public:
  HmacSha256(const HmacKey& key, const Sha256Block& first);
  // Returns the HMAC of the first block and `rest`.
  Sha256Digest Of(absl::string_view rest) const;

 private:
  Sha256 inner_;
  Sha256 outer_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_HMAC_SHA256_H_
