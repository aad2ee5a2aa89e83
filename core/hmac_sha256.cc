#include "core/hmac_sha256.h"

#include <algorithm>

namespace kvtier {
namespace {

Sha256Block Padded(const HmacKey& key, uint8_t pad) {
  Sha256Block block{};
  std::copy(key.begin(), key.end(), block.begin());
  for (uint8_t& byte : block) byte ^= pad;
  return block;
}

}  // namespace

Sha256Block InnerPadOf(const HmacKey& key) { return Padded(key, 0x36); }
Sha256Block OuterPadOf(const HmacKey& key) { return Padded(key, 0x5c); }

HmacSha256::HmacSha256(const HmacKey& key, const Sha256Block& first) {
  const Sha256Block inner = InnerPadOf(key);
  const Sha256Block outer = OuterPadOf(key);
  inner_.Update(inner.data(), inner.size());
  inner_.Update(first.data(), first.size());
  outer_.Update(outer.data(), outer.size());
}

Sha256Digest HmacSha256::Of(absl::string_view rest) const {
  // Scratch: allocating a context costs as much as hashing a block.
  thread_local Sha256 sha;
  sha.CopyFrom(inner_);
  sha.Update(rest);
  const Sha256Digest digest = sha.Finish();
  sha.CopyFrom(outer_);
  sha.Update(digest.data(), digest.size());
  return sha.Finish();
}

}  // namespace kvtier
