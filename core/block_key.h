// The names of blocks: EngineKey outside kvtier, BlockKey inside it, and
// BlockNamer, the only way from one to the other.
//
// An engine names a block by opaque bytes that chain over the block's whole
// prefix. kvtier never recomputes that chain. On entry the agent mixes the
// tenant's secret and the space into a 128-bit BlockKey, so that a key of one
// tenant or space cannot even be expressed by another.
#ifndef KVTIER_CORE_BLOCK_KEY_H_
#define KVTIER_CORE_BLOCK_KEY_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/check.h"

namespace kvtier {

inline constexpr size_t kMinEngineKeyBytes = 8;
inline constexpr size_t kMaxEngineKeyBytes = 64;

// 8..64 opaque bytes chosen by the engine. A value type; copies 65 bytes.
class EngineKey {
 public:
  // Errors: kInvalidArgument when `bytes` is shorter than 8 or longer than 64.
  static absl::StatusOr<EngineKey> FromBytes(absl::string_view bytes);
  // Returns whether a key may have so many bytes.
  static bool IsSize(size_t bytes) {
    return bytes >= kMinEngineKeyBytes && bytes <= kMaxEngineKeyBytes;
  }
  // REQUIRES: IsSize(bytes.size()).
  explicit EngineKey(absl::string_view bytes) : size_(static_cast<uint8_t>(bytes.size())) {
    KVT_CHECK(IsSize(bytes.size()));
    std::memcpy(bytes_.data(), bytes.data(), bytes.size());
  }
  absl::string_view bytes() const { return {bytes_.data(), size_}; }
  friend bool operator==(const EngineKey& a, const EngineKey& b) { return a.bytes() == b.bytes(); }

 private:
  uint8_t size_;
  std::array<char, kMaxEngineKeyBytes> bytes_{};
};

// 256-bit digest of a SpaceSpec (space.h): blocks of different digests never mix.
struct SpaceDigest {
  std::array<uint8_t, 32> bytes{};
  friend auto operator<=>(const SpaceDigest&, const SpaceDigest&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const SpaceDigest& d) {
    return H::combine(std::move(h), d.bytes);
  }
  std::string ToHex() const;  // 64 lower-case digits.
};

// A tenant's 256-bit key of names. Never logged; sent to members of its share group alone.
struct TenantKey {
  std::array<uint8_t, 32> bytes{};
  // Returns SHA-256 over a domain tag and `secret`; an empty secret is the key of the open
  // "default" tenant, equal on every node.
  static TenantKey FromSecret(absl::string_view secret);
  friend bool operator==(const TenantKey&, const TenantKey&) = default;
};

// The only key inside kvtier: indexes, disk, wire and directory use nothing else.
struct BlockKey {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const BlockKey& k) {
    return H::combine(std::move(h), k.lo);  // Either half is as good as random.
  }
  std::array<uint8_t, 16> ToBytes() const;  // Big-endian: sorts like the integers.
  // Errors: kInvalidArgument unless `bytes` is 16 bytes long.
  static absl::StatusOr<BlockKey> FromBytes(absl::string_view bytes);
  std::string ToHex() const;  // 32 lower-case digits.
  // Errors: kInvalidArgument unless `hex` is 32 hexadecimal digits.
  static absl::StatusOr<BlockKey> FromHex(absl::string_view hex);
};

// Names the blocks of one tenant in one space:
//   BlockKey = first 128 bits of HMAC-SHA-256(tenant key, tag || space || engine key),
// the tag being "kvtier.block.v1" zero-padded to 32 bytes.
// Thread-compatible: the keyed state is made once, Name() copies it (under 1 us). NameAll()
// names two keys beside each other where the processor has SHA instructions.
class BlockNamer {
 public:
  BlockNamer(const TenantKey& tenant, const SpaceDigest& space);
  ~BlockNamer();
  BlockNamer(BlockNamer&&) noexcept;
  BlockNamer& operator=(BlockNamer&&) noexcept;
  BlockKey Name(const EngineKey& engine_key) const;
  // Names many blocks at once. REQUIRES: `names` has a place for each key.
  void NameAll(std::span<const EngineKey> engine_keys, std::span<BlockKey> names) const;

 private:
  struct KeyedState;
  std::unique_ptr<KeyedState> state_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_BLOCK_KEY_H_
