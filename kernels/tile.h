// A tile is kTile elements in a row, the unit of the host's inner loops: their
// constant length is what compilers vectorise. Loads and stores are of any alignment.
#ifndef KVTIER_KERNELS_TILE_H_
#define KVTIER_KERNELS_TILE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/codec_layout.h"

namespace kvtier::kernels {

static_assert(std::endian::native == std::endian::little, "Encodings are little-endian.");

using Bf16Tile = std::array<uint16_t, kTile>;
using CodeTile = std::array<uint8_t, kTile>;
using FloatTile = std::array<float, kTile>;

// Works for single values too.
template <typename T>
inline T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename T>
inline void Store(const T& value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

// Bytes of a tile of codes, and its two directions. At 4 bits both are arithmetic on
// whole words, for compilers do not vectorise half a tile.
template <uint32_t kBits>
inline constexpr uint64_t kCodeBytes = uint64_t{kTile} * kBits / 8;

// Codes of 8 elements each.
using CodeHalves = std::array<uint64_t, 2>;
inline constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;

// REQUIRES: every code is below 1 << kBits.
template <uint32_t kBits>
inline void StoreCodes(const CodeTile& codes, std::byte* to) {
  if constexpr (kBits == 8) {
    Store(codes, to);
  } else {
    const auto halves = std::bit_cast<CodeHalves>(codes);
    Store(halves[0] | halves[1] << 4, to);
  }
}

template <uint32_t kBits>
inline CodeTile LoadCodes(const std::byte* from) {
  if constexpr (kBits == 8) {
    return Load<CodeTile>(from);
  } else {
    const auto packed = Load<uint64_t>(from);
    return std::bit_cast<CodeTile>(CodeHalves{packed & kLowNibbles, packed >> 4 & kLowNibbles});
  }
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_TILE_H_
