#include "tier_disk/cipher/record_cipher.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"
#include "core/space.h"
#include "tier_disk/cipher/hkdf.h"

namespace kvtier {
namespace {

// Tags include their final NUL, so that none is a prefix of another.
constexpr char kOpeningTag[] = "kvtier.disk.opening.v1";
constexpr char kRecordTag[] = "kvtier.disk.rec.v1";  // 19 bytes with its NUL.

constexpr uint64_t kNonceSegments = uint64_t{1} << 16;
constexpr uint64_t kNoncePages = uint64_t{1} << 32;

// Layout: tag:19 zero:1 segment:4 generation:8 offset:8 length:8 key:16 space:32, with integers
// little-endian and the key as everywhere. Fields have fixed sizes, so no two identities have the
// same bytes.
using AssociatedData = std::array<uint8_t, 96>;

AssociatedData AssociatedDataOf(const RecordIdentity& identity) {
  AssociatedData bytes{};
  static_assert(sizeof(kRecordTag) == 19);
  std::copy(std::begin(kRecordTag), std::end(kRecordTag), bytes.begin());
  uint8_t* out = bytes.data() + 20;
  out = StoreLittle(static_cast<uint32_t>(identity.place.segment), out);
  out = StoreLittle(identity.place.generation, out);
  out = StoreLittle(identity.place.offset, out);
  out = StoreLittle(identity.length, out);
  const std::array<uint8_t, 16> key = identity.key.ToBytes();
  out = std::copy(key.begin(), key.end(), out);
  out = std::copy(identity.space.bytes.begin(), identity.space.bytes.end(), out);
  KVT_CHECK(out == bytes.data() + bytes.size());
  return bytes;
}

SecretKey OpeningKey(const SecretKey& key, const OpeningId& opening) {
  std::array<uint8_t, sizeof(kOpeningTag) + sizeof(opening.bytes)> info;
  uint8_t* out = std::copy(std::begin(kOpeningTag), std::end(kOpeningTag), info.data());
  std::copy(opening.bytes.begin(), opening.bytes.end(), out);
  SecretKey derived;
  HkdfExpand(key, info, derived.bytes());
  return derived;
}

std::string PlaceText(const RecordPlace& place) {
  return absl::StrCat("segment ", static_cast<uint32_t>(place.segment), ", generation ",
                      place.generation, ", offset ", place.offset);
}

absl::Status Damaged(const RecordIdentity& identity, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("sealed record of block ", identity.key.ToHex(), " at ",
                                          PlaceText(identity.place), ": ", what));
}

}  // namespace

std::optional<GcmNonce> RecordNonce(const RecordPlace& place) {
  const uint64_t segment = static_cast<uint32_t>(place.segment);
  const uint64_t page = place.offset / kBlockAlignment;
  if (segment >= kNonceSegments || place.generation > kMaxCipherGeneration ||
      place.offset % kBlockAlignment != 0 || page >= kNoncePages) {
    return std::nullopt;
  }
  GcmNonce nonce;
  uint8_t* const out = StoreBig(segment << 48 | place.generation, nonce.bytes.data());
  StoreBig(static_cast<uint32_t>(page), out);
  return nonce;
}

RecordCipher::RecordCipher(const SecretKey& key, KeyId key_id, const OpeningId& opening)
    : key_(key), key_id_(key_id), opening_(opening), opening_key_(OpeningKey(key, opening)) {
  KVT_CHECK(opening != OpeningId{});
}

absl::StatusOr<CipherProof> RecordCipher::Seal(const RecordIdentity& identity,
                                               std::span<const std::byte> payload,
                                               std::span<std::byte> out) const {
  KVT_CHECK(identity.length > 0 && payload.size() == identity.length);
  KVT_CHECK(out.size() == SlotBytes(identity.length));
  const std::optional<GcmNonce> nonce = RecordNonce(identity.place);
  if (!nonce) {
    return absl::FailedPreconditionError(
        absl::StrCat("no nonce can be made for a record at ", PlaceText(identity.place)));
  }
  const AssociatedData associated = AssociatedDataOf(identity);
  CipherProof proof{.key_id = key_id_, .opening = opening_};
  proof.tag = SealGcm({.key = opening_key_, .nonce = *nonce, .associated = associated}, payload,
                      out.first(payload.size()));
  // Bytes of a slot after its payload must not be readable on a stolen disk.
  std::fill(out.begin() + static_cast<ptrdiff_t>(payload.size()), out.end(), std::byte{0});
  return proof;
}

absl::Status RecordCipher::Open(const RecordIdentity& identity, const CipherProof& proof,
                                std::span<const std::byte> sealed, std::span<std::byte> out) const {
  KVT_CHECK(out.size() == sealed.size());
  if (proof.key_id != key_id_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "record of block ", identity.key.ToHex(), " is sealed under key ",
        absl::Hex(static_cast<uint64_t>(proof.key_id), absl::kZeroPad16), ", and this key is ",
        absl::Hex(static_cast<uint64_t>(key_id_), absl::kZeroPad16)));
  }
  const std::optional<GcmNonce> nonce = RecordNonce(identity.place);
  std::string wrong;
  if (sealed.size() != identity.length) {
    wrong = absl::StrCat("length ", sealed.size(), ", expected ", identity.length);
  } else if (!nonce) {
    wrong = "nothing is ever sealed there";
  }
  if (!wrong.empty()) {
    std::fill(out.begin(), out.end(), std::byte{0});
    return Damaged(identity, wrong);
  }
  const AssociatedData associated = AssociatedDataOf(identity);
  const SecretKey key = proof.opening == opening_ ? opening_key_ : OpeningKey(key_, proof.opening);
  if (OpenGcm({.key = key, .nonce = *nonce, .associated = associated}, sealed, proof.tag, out)) {
    return absl::OkStatus();
  }
  return Damaged(identity, "its tag does not match");
}

}  // namespace kvtier
