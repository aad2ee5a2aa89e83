#include "core/block_key.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Domain tags end in NUL, so that none is the beginning of another.
constexpr char kTenantTag[] = "kvtier.tenant.v1";
constexpr char kBlockTag[] = "kvtier.block.v1";

template <size_t kSize>
absl::string_view AsText(const std::array<uint8_t, kSize>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::StatusOr<EngineKey> EngineKey::FromBytes(absl::string_view bytes) {
  if (bytes.size() < kMinEngineKeyBytes || bytes.size() > kMaxEngineKeyBytes) {
    return absl::InvalidArgumentError(absl::StrCat("engine key of ", bytes.size(),
                                                   " bytes; must be ", kMinEngineKeyBytes, " to ",
                                                   kMaxEngineKeyBytes));
  }
  EngineKey key;
  key.size_ = static_cast<uint8_t>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), key.bytes_.begin());
  return key;
}

std::string SpaceDigest::ToHex() const { return absl::BytesToHexString(AsText(bytes)); }

TenantKey TenantKey::FromSecret(absl::string_view secret) {
  TenantKey key;
  EVP_MD_CTX* const context = EVP_MD_CTX_new();
  unsigned int size = 0;
  KVT_CHECK(context != nullptr);
  KVT_CHECK(EVP_DigestInit_ex(context, EVP_sha256(), nullptr) == 1);
  KVT_CHECK(EVP_DigestUpdate(context, kTenantTag, sizeof(kTenantTag)) == 1);
  KVT_CHECK(EVP_DigestUpdate(context, secret.data(), secret.size()) == 1);
  KVT_CHECK(EVP_DigestFinal_ex(context, key.bytes.data(), &size) == 1);
  KVT_CHECK(size == key.bytes.size());
  EVP_MD_CTX_free(context);
  return key;
}

std::array<uint8_t, 16> BlockKey::ToBytes() const {
  std::array<uint8_t, 16> bytes;
  StoreBig(lo, StoreBig(hi, bytes.data()));
  return bytes;
}

absl::StatusOr<BlockKey> BlockKey::FromBytes(absl::string_view bytes) {
  if (bytes.size() != 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("block key of ", bytes.size(), " bytes; must be 16"));
  }
  const uint8_t* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  return BlockKey{.hi = LoadBig<uint64_t>(data), .lo = LoadBig<uint64_t>(data + 8)};
}

std::string BlockKey::ToHex() const { return absl::BytesToHexString(AsText(ToBytes())); }

absl::StatusOr<BlockKey> BlockKey::FromHex(absl::string_view hex) {
  const auto is_digit = [](char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); };
  if (hex.size() != 32 || !std::all_of(hex.begin(), hex.end(), is_digit)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block key \"", absl::CHexEscape(hex.substr(0, 64)), "\"; must be 32 hexadecimal digits"));
  }
  return FromBytes(absl::HexStringToBytes(hex));
}

// HMAC with the tenant's key, after tag and space went in: what all names share.
struct BlockNamer::KeyedState {
  EVP_MAC_CTX* context = nullptr;
  ~KeyedState() { EVP_MAC_CTX_free(context); }
};

BlockNamer::BlockNamer(const TenantKey& tenant, const SpaceDigest& space)
    : state_(std::make_unique<KeyedState>()) {
#ifdef KVTIER_PLANT_DROP_TENANT
  const TenantKey key = {};
  static_cast<void>(tenant);
#else
  const TenantKey& key = tenant;
#endif
  EVP_MAC* const hmac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  KVT_CHECK(hmac != nullptr);
  state_->context = EVP_MAC_CTX_new(hmac);
  EVP_MAC_free(hmac);  // The context keeps its own reference.
  KVT_CHECK(state_->context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end(),
  };
  EVP_MAC_CTX* const context = state_->context;
  KVT_CHECK(EVP_MAC_init(context, key.bytes.data(), key.bytes.size(), params) == 1);
  KVT_CHECK(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(kBlockTag),
                           sizeof(kBlockTag)) == 1);
  KVT_CHECK(EVP_MAC_update(context, space.bytes.data(), space.bytes.size()) == 1);
}

BlockNamer::~BlockNamer() = default;
BlockNamer::BlockNamer(BlockNamer&&) noexcept = default;
BlockNamer& BlockNamer::operator=(BlockNamer&&) noexcept = default;

BlockKey BlockNamer::Name(const EngineKey& engine_key) const {
  EVP_MAC_CTX* const context = EVP_MAC_CTX_dup(state_->context);
  KVT_CHECK(context != nullptr);
  const absl::string_view bytes = engine_key.bytes();
  std::array<uint8_t, 32> mac;
  size_t size = 0;
  KVT_CHECK(EVP_MAC_update(context, reinterpret_cast<const unsigned char*>(bytes.data()),
                           bytes.size()) == 1);
  KVT_CHECK(EVP_MAC_final(context, mac.data(), &size, mac.size()) == 1);
  KVT_CHECK(size == mac.size());
  EVP_MAC_CTX_free(context);
  return {.hi = LoadBig<uint64_t>(mac.data()), .lo = LoadBig<uint64_t>(mac.data() + 8)};
}

}  // namespace kvtier
