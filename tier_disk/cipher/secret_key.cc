#include "tier_disk/cipher/secret_key.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace kvtier {

void Wipe(std::span<uint8_t> bytes) { OPENSSL_cleanse(bytes.data(), bytes.size()); }

void FillRandom(std::span<uint8_t> bytes) {
  KVT_CHECK(bytes.size() <= std::numeric_limits<int>::max());
  KVT_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
}

SecretKey::SecretKey(std::span<const uint8_t, kBytes> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

SecretKey::~SecretKey() { Wipe(bytes_); }

}  // namespace kvtier
