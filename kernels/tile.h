// A tile is kCodecTile consecutive elements, the unit of the host's inner loops: compilers
// vectorise loops of this constant length. Loads and stores work at any alignment.
#ifndef KVTIER_KERNELS_TILE_H_
#define KVTIER_KERNELS_TILE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/codec_layout.h"

namespace kvtier::kernels {

static_assert(std::endian::native == std::endian::little, "Encodings are little-endian.");

using Bf16Tile = std::array<uint16_t, kCodecTile>;
using CodeTile = std::array<uint8_t, kCodecTile>;
using FloatTile = std::array<float, kCodecTile>;

// Load and Store also work for single values.
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

// Tile of codes of 4 bits, packed as codec_layout.h says. It uses arithmetic on whole words,
// because compilers do not vectorise half a tile.
inline constexpr uint64_t kNibbleBytes = kCodecTile / 2;
inline constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;
// Two halves of a tile, with codes of 8 elements each.
using CodeHalves = std::array<uint64_t, 2>;

// Packs the codes. REQUIRES: every code is below 16.
inline void StoreNibbles(const CodeTile& codes, std::byte* to) {
  const auto halves = std::bit_cast<CodeHalves>(codes);
  Store(halves[0] | halves[1] << 4, to);
}

inline CodeTile LoadNibbles(const std::byte* from) {
  const auto packed = Load<uint64_t>(from);
  return std::bit_cast<CodeTile>(CodeHalves{packed & kLowNibbles, packed >> 4 & kLowNibbles});
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_TILE_H_
