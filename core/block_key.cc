#include "core/block_key.h"

#include <openssl/evp.h>

#include <algorithm>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr size_t kShaBlockBytes = 64;
constexpr size_t kShaBytes = 32;

// The closing NUL is part of a tag, so that none is the beginning of another. The
// block tag is 32 bytes, so that tag and space fill one SHA-256 block, hashed once
// per namer instead of once per name.
constexpr char kTenantTag[] = "kvtier.tenant.v1";
constexpr char kBlockTag[kShaBlockBytes - kShaBytes] = "kvtier.block.v1";

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Sha256 = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Sha256 NewSha256() {
  Sha256 sha(EVP_MD_CTX_new());
  KVT_CHECK(sha != nullptr);
  KVT_CHECK(EVP_DigestInit_ex(sha.get(), EVP_sha256(), nullptr) == 1);
  return sha;
}

void Update(const Sha256& sha, const void* data, size_t size) {
  KVT_CHECK(EVP_DigestUpdate(sha.get(), data, size) == 1);
}

void Copy(const Sha256& from, const Sha256& to) {
  KVT_CHECK(EVP_MD_CTX_copy_ex(to.get(), from.get()) == 1);
}

void Finish(const Sha256& sha, std::span<uint8_t, kShaBytes> digest) {
  unsigned int size = 0;
  KVT_CHECK(EVP_DigestFinal_ex(sha.get(), digest.data(), &size) == 1);
  KVT_CHECK(size == kShaBytes);
}

// SHA-256 fed with the key, zero-padded to a block and XORed with `pad` (RFC 2104).
Sha256 KeyedSha256(const std::array<uint8_t, 32>& key, uint8_t pad) {
  std::array<uint8_t, kShaBlockBytes> block{};
  std::copy(key.begin(), key.end(), block.begin());
  for (uint8_t& byte : block) byte ^= pad;
  Sha256 sha = NewSha256();
  Update(sha, block.data(), block.size());
  return sha;
}

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
  const Sha256 sha = NewSha256();
  Update(sha, kTenantTag, sizeof(kTenantTag));
  Update(sha, secret.data(), secret.size());
  Finish(sha, key.bytes);
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

// The two hashes of HMAC (RFC 2104), stopped where the names of one tenant and space
// part: inner has taken key, tag and space, outer the key. Copying them costs half
// of duplicating an EVP_MAC context.
struct BlockNamer::KeyedState {
  Sha256 inner;
  Sha256 outer;
};

BlockNamer::BlockNamer(const TenantKey& tenant, const SpaceDigest& space)
    : state_(std::make_unique<KeyedState>()) {
  state_->inner = KeyedSha256(tenant.bytes, 0x36);
  Update(state_->inner, kBlockTag, sizeof(kBlockTag));
  Update(state_->inner, space.bytes.data(), space.bytes.size());
  state_->outer = KeyedSha256(tenant.bytes, 0x5c);
}

BlockNamer::~BlockNamer() = default;
BlockNamer::BlockNamer(BlockNamer&&) noexcept = default;
BlockNamer& BlockNamer::operator=(BlockNamer&&) noexcept = default;

BlockKey BlockNamer::Name(const EngineKey& engine_key) const {
  // Scratch: allocating a context costs as much as hashing a block.
  thread_local const Sha256 sha = NewSha256();
  std::array<uint8_t, kShaBytes> digest;
  Copy(state_->inner, sha);
  Update(sha, engine_key.bytes().data(), engine_key.bytes().size());
  Finish(sha, digest);
  Copy(state_->outer, sha);
  Update(sha, digest.data(), digest.size());
  Finish(sha, digest);
  return {.hi = LoadBig<uint64_t>(digest.data()), .lo = LoadBig<uint64_t>(digest.data() + 8)};
}

}  // namespace kvtier
