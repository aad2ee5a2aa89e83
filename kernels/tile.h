// A tile is kCodecTile elements in a row, the unit of the host's inner loops: their
// constant length is what compilers vectorise. Loads and stores are of any alignment.
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

// A tile of codes of 4 bits, packed as codec_layout.h says: arithmetic on whole words, for
// compilers do not vectorise half a tile.
inline constexpr uint64_t kNibbleBytes = kCodecTile / 2;
inline constexpr uint64_t kLowNibbles = 0x0f0f0f0f0f0f0f0f;
// Codes of 8 elements each.
using CodeHalves = std::array<uint64_t, 2>;

// REQUIRES: every code is below 16.
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
