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

// Bytes of a tile of codes, and its two directions.
template <uint32_t kBits>
inline constexpr uint64_t kCodeBytes = uint64_t{kTile} * kBits / 8;

template <uint32_t kBits>
inline void StoreCodes(const CodeTile& codes, std::byte* to) {
  if constexpr (kBits == 8) {
    Store(codes, to);
  } else {
    std::array<uint8_t, kTile / 2> packed;
    for (uint32_t i = 0; i < kTile / 2; ++i) {
      packed[i] = static_cast<uint8_t>(codes[i] | codes[i + kTile / 2] << 4);
    }
    Store(packed, to);
  }
}

template <uint32_t kBits>
inline CodeTile LoadCodes(const std::byte* from) {
  if constexpr (kBits == 8) {
    return Load<CodeTile>(from);
  } else {
    const auto packed = Load<std::array<uint8_t, kTile / 2>>(from);
    CodeTile codes;
    for (uint32_t i = 0; i < kTile / 2; ++i) {
      codes[i] = packed[i] & 0xf;
      codes[i + kTile / 2] = packed[i] >> 4;
    }
    return codes;
  }
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_TILE_H_
