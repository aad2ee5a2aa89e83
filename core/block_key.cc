#include "core/block_key.h"

#include <algorithm>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/byte_order.h"
#include "core/check.h"
#include "core/hmac_sha256.h"
#include "core/sha256.h"
#include "core/sha256_lanes.h"

namespace kvtier {
namespace {

constexpr size_t kShaBlockBytes = 64;

// The closing NUL is part of a tag, so that none is the beginning of another. The
// block tag is 32 bytes, so that tag and space fill one SHA-256 block, hashed once
// per namer instead of once per name.
constexpr char kTenantTag[] = "kvtier.tenant.v1";
constexpr char kBlockTag[kShaBlockBytes - kSha256Bytes] = "kvtier.block.v1";

// Returns the block that all names of one space begin with.
Sha256Block FirstBlock(const SpaceDigest& space) {
  Sha256Block block;
  const auto space_at = std::copy(std::begin(kBlockTag), std::end(kBlockTag), block.begin());
  std::copy(space.bytes.begin(), space.bytes.end(), space_at);
  return block;
}

constexpr uint8_t kEndOfMessage = 0x80;
constexpr size_t kLengthAt = kShaBlockBytes - sizeof(uint64_t);

// Returns whether one block has room for the key and, after it, the mark and the length.
bool FitsOneBlock(const EngineKey& key) { return key.bytes().size() < kLengthAt; }

// Returns the last block of the inner message: the engine key, after two whole blocks.
Sha256Block LastInnerBlock(absl::string_view engine_key) {
  Sha256Block block{};
  std::copy(engine_key.begin(), engine_key.end(), block.begin());
  block[engine_key.size()] = kEndOfMessage;
  StoreBig(uint64_t{8} * (2 * kShaBlockBytes + engine_key.size()), &block[kLengthAt]);
  return block;
}

// Returns the last block of the outer message: the inner digest, after one whole block.
Sha256Block LastOuterBlock(const Sha256State& inner) {
  Sha256Block block{};
  uint8_t* out = block.data();
  for (const uint32_t word : inner) out = StoreBig(word, out);
  *out = kEndOfMessage;
  StoreBig(uint64_t{8} * (kShaBlockBytes + kSha256Bytes), &block[kLengthAt]);
  return block;
}

BlockKey KeyFrom(const Sha256State& digest) {
  const auto join = [](uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; };
  return {.hi = join(digest[0], digest[1]), .lo = join(digest[2], digest[3])};
}

template <size_t kSize>
absl::string_view AsText(const std::array<uint8_t, kSize>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

absl::StatusOr<EngineKey> EngineKey::FromBytes(absl::string_view bytes) {
  if (!IsSize(bytes.size())) {
    return absl::InvalidArgumentError(absl::StrCat("engine key of ", bytes.size(),
                                                   " bytes; must be ", kMinEngineKeyBytes, " to ",
                                                   kMaxEngineKeyBytes));
  }
  return EngineKey(bytes);
}

std::string SpaceDigest::ToHex() const { return absl::BytesToHexString(AsText(bytes)); }

TenantKey TenantKey::FromSecret(absl::string_view secret) {
  Sha256 sha;
  sha.Update(kTenantTag, sizeof(kTenantTag));
  sha.Update(secret);
  return {.bytes = sha.Finish()};
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

// The HMAC, and the states of its two hashes once more for Sha256Lanes: inner has taken key, tag
// and space, outer the key.
struct BlockNamer::KeyedState {
  HmacSha256 hmac;
  Sha256State inner_lane = kSha256Start;
  Sha256State outer_lane = kSha256Start;
};

BlockNamer::BlockNamer(const TenantKey& tenant, const SpaceDigest& space)
    : state_(new KeyedState{.hmac = HmacSha256(tenant.bytes, FirstBlock(space))}) {
  if (!Sha256Lanes::Supported()) return;
  Sha256Lanes::Compress(&state_->inner_lane, InnerPadOf(tenant.bytes));
  Sha256Lanes::Compress(&state_->inner_lane, FirstBlock(space));
  Sha256Lanes::Compress(&state_->outer_lane, OuterPadOf(tenant.bytes));
}

BlockNamer::~BlockNamer() = default;
BlockNamer::BlockNamer(BlockNamer&&) noexcept = default;
BlockNamer& BlockNamer::operator=(BlockNamer&&) noexcept = default;

BlockKey BlockNamer::Name(const EngineKey& engine_key) const {
  const Sha256Digest digest = state_->hmac.Of(engine_key.bytes());
  return {.hi = LoadBig<uint64_t>(digest.data()), .lo = LoadBig<uint64_t>(digest.data() + 8)};
}

void BlockNamer::NameAll(std::span<const EngineKey> engine_keys, std::span<BlockKey> names) const {
  KVT_CHECK(engine_keys.size() == names.size());
  size_t i = 0;
  while (i < engine_keys.size()) {
    const bool paired = i + 1 < engine_keys.size() && Sha256Lanes::Supported() &&
                        FitsOneBlock(engine_keys[i]) && FitsOneBlock(engine_keys[i + 1]);
    if (!paired) {
      names[i] = Name(engine_keys[i]);
      ++i;
      continue;
    }
    std::array<Sha256State, 2> states{state_->inner_lane, state_->inner_lane};
    Sha256Lanes::Compress(&states, {LastInnerBlock(engine_keys[i].bytes()),
                                    LastInnerBlock(engine_keys[i + 1].bytes())});
    const std::array<Sha256Block, 2> digests{LastOuterBlock(states[0]), LastOuterBlock(states[1])};
    states = {state_->outer_lane, state_->outer_lane};
    Sha256Lanes::Compress(&states, digests);
    names[i] = KeyFrom(states[0]);
    names[i + 1] = KeyFrom(states[1]);
    i += 2;
  }
}

}  // namespace kvtier
