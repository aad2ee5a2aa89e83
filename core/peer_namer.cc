#include "core/peer_namer.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/byte_order.h"
#include "core/check.h"

namespace kvtier {
namespace {

constexpr size_t kNameBytes = 16;  // A block of AES.

// Returns the tag, which is shorter than a block and so ends in NUL, as a message's first block.
Sha256Block FirstBlock(absl::string_view tag) {
  Sha256Block block{};
  KVT_CHECK(tag.size() < block.size());
  std::copy(tag.begin(), tag.end(), block.begin());
  return block;
}

Sha256Digest Derived(const PeerKey& key, absl::string_view tag) {
  return HmacSha256(key.bytes, FirstBlock(tag)).Of("");
}

EVP_CIPHER_CTX* CipherOf(void* context) { return static_cast<EVP_CIPHER_CTX*>(context); }

// Returns a context for whole blocks, each for itself: each is a name of its own, and no two are
// the same.
EVP_CIPHER_CTX* MakeCipher(const Sha256Digest& key, int encrypt) {
  EVP_CIPHER_CTX* const context = EVP_CIPHER_CTX_new();
  KVT_CHECK(context != nullptr);
  KVT_CHECK(EVP_CipherInit_ex(context, EVP_aes_256_ecb(), nullptr, key.data(), nullptr, encrypt) ==
            1);
  EVP_CIPHER_CTX_set_padding(context, 0);
  return context;
}

// Puts blocks through the cipher in place. REQUIRES: `size` is a multiple of kNameBytes.
void Transform(void* context, uint8_t* bytes, size_t size) {
  int written = 0;
  const int length = static_cast<int>(size);
  KVT_CHECK(EVP_CipherUpdate(CipherOf(context), bytes, &written, bytes, length) == 1);
  KVT_CHECK(written == length);
}

template <typename To, typename From>
To Converted(void* context, const From& from) {
  std::array<uint8_t, kNameBytes> bytes;
  StoreBig(from.lo, StoreBig(from.hi, bytes.data()));
  Transform(context, bytes.data(), bytes.size());
  return {.hi = LoadBig<uint64_t>(bytes.data()), .lo = LoadBig<uint64_t>(&bytes[8])};
}

template <typename To, typename From>
std::vector<To> AllConverted(void* context, std::span<const From> from) {
  std::vector<To> converted(from.size());
  if (from.empty()) return converted;
  std::vector<uint8_t> bytes(from.size() * kNameBytes);
  uint8_t* out = bytes.data();
  for (const From& one : from) out = StoreBig(one.lo, StoreBig(one.hi, out));
  Transform(context, bytes.data(), bytes.size());
  const uint8_t* in = bytes.data();
  for (To& one : converted) {
    one = {.hi = LoadBig<uint64_t>(in), .lo = LoadBig<uint64_t>(in + 8)};
    in += kNameBytes;
  }
  return converted;
}

}  // namespace

void PeerNamer::FreeCipher::operator()(void* context) const {
  EVP_CIPHER_CTX_free(CipherOf(context));  // Wipes it.
}

PeerNamer::PeerNamer(const PeerKey& key)
    : tag_(static_cast<PeerTag>(LoadBig<uint64_t>(Derived(key, "kvtier.peer-tag.v1").data()))),
      encrypt_(MakeCipher(Derived(key, "kvtier.peer-name.v1"), 1)),
      decrypt_(MakeCipher(Derived(key, "kvtier.peer-name.v1"), 0)),
      proofs_(Derived(key, "kvtier.peer-proof.v1"), FirstBlock("kvtier.block-proof.v1")) {}

PeerName PeerNamer::NameOf(const BlockKey& key) const {
  return Converted<PeerName>(encrypt_.get(), key);
}

BlockKey PeerNamer::KeyOf(const PeerName& name) const {
  return Converted<BlockKey>(decrypt_.get(), name);
}

std::vector<PeerName> PeerNamer::NamesOf(std::span<const BlockKey> keys) const {
  return AllConverted<PeerName>(encrypt_.get(), keys);
}

std::vector<BlockKey> PeerNamer::KeysOf(std::span<const PeerName> names) const {
  return AllConverted<BlockKey>(decrypt_.get(), names);
}

PeerMac PeerNamer::MacOf(const BlockMeta& meta) const {
  // Every field has its place, also those that are not there.
  std::array<uint8_t, 96> message{};
  uint8_t* out = message.data();
  out = StoreBig(meta.key.lo, StoreBig(meta.key.hi, out));
  out = std::copy(meta.space.bytes.begin(), meta.space.bytes.end(), out);
  out = StoreBig(meta.length, out);
  const BlockKey parent = meta.parent.value_or(BlockKey());
  out = StoreBig(parent.lo, StoreBig(parent.hi, out));
  out = StoreBig(meta.sum.lo, StoreBig(meta.sum.hi, out));
  StoreBig(uint64_t{meta.parent.has_value()}, out);
  const Sha256Digest digest =
      proofs_.Of({reinterpret_cast<const char*>(message.data()), message.size()});
  PeerMac mac;
  std::copy_n(digest.begin(), mac.size(), mac.begin());
  return mac;
}

BlockProof PeerNamer::Prove(const BlockMeta& meta) const {
  BlockProof proof{.space = meta.space, .length = meta.length, .sum = meta.sum, .mac = MacOf(meta)};
  if (meta.parent.has_value()) proof.parent = NameOf(*meta.parent);
  return proof;
}

std::optional<BlockMeta> PeerNamer::Check(const BlockKey& key, const BlockProof& proof) const {
  BlockMeta meta{.key = key, .space = proof.space, .length = proof.length, .sum = proof.sum};
  if (proof.parent.has_value()) meta.parent = KeyOf(*proof.parent);
  const PeerMac mac = MacOf(meta);
  if (CRYPTO_memcmp(mac.data(), proof.mac.data(), mac.size()) != 0) return std::nullopt;
  return meta;
}

}  // namespace kvtier
