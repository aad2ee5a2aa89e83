#include "tier_disk/cipher/hkdf.h"

#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <array>
#include <memory>

#include "core/check.h"

namespace kvtier {
namespace {

struct FreeKdf {
  void operator()(EVP_KDF_CTX* context) const { EVP_KDF_CTX_free(context); }  // Wipes it.
};

// Returns the algorithm. The library looks it up by name under a lock, so it is looked up once.
EVP_KDF* Hkdf() {
  static EVP_KDF* const hkdf = EVP_KDF_fetch(nullptr, "HKDF", nullptr);
  KVT_CHECK(hkdf != nullptr);
  return hkdf;
}

// Makes a parameter. The library's parameters can be written, but this one is only read.
OSSL_PARAM Octets(const char* name, std::span<const uint8_t> bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<uint8_t*>(bytes.data()), bytes.size());
}

void Derive(int mode, OSSL_PARAM key, OSSL_PARAM context, std::span<uint8_t> out) {
  const std::unique_ptr<EVP_KDF_CTX, FreeKdf> kdf(EVP_KDF_CTX_new(Hkdf()));
  KVT_CHECK(kdf != nullptr);
  char digest[] = "SHA256";
  const std::array<OSSL_PARAM, 5> parameters = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode), key, context,
      OSSL_PARAM_construct_end()};
  KVT_CHECK(EVP_KDF_derive(kdf.get(), out.data(), out.size(), parameters.data()) == 1);
}

}  // namespace

SecretKey HkdfExtract(std::span<const uint8_t> salt, std::span<const uint8_t> material) {
  KVT_CHECK(!material.empty());
  // Without a salt it is zeroes (RFC 5869, 2.2); the library refuses an empty one.
  constexpr std::array<uint8_t, SecretKey::kBytes> kNoSalt{};
  if (salt.empty()) salt = kNoSalt;
  SecretKey key;
  Derive(EVP_KDF_HKDF_MODE_EXTRACT_ONLY, Octets(OSSL_KDF_PARAM_KEY, material),
         Octets(OSSL_KDF_PARAM_SALT, salt), key.bytes());
  return key;
}

void HkdfExpand(const SecretKey& key, std::span<const uint8_t> info, std::span<uint8_t> out) {
  KVT_CHECK(!out.empty() && out.size() <= kMaxHkdfBytes);
  Derive(EVP_KDF_HKDF_MODE_EXPAND_ONLY, Octets(OSSL_KDF_PARAM_KEY, key.bytes()),
         Octets(OSSL_KDF_PARAM_INFO, info), out);
}

}  // namespace kvtier
