// DeviceTile is a tile in the registers of one lane, which the device forms of the codecs load,
// compare and store (tile.h has the host's). Accesses are 16 bytes wide, or 8 where a tile's codes
// have 4 bits.
#ifndef KVTIER_KERNELS_DEVICE_TILE_CUH_
#define KVTIER_KERNELS_DEVICE_TILE_CUH_

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/device_launch.cuh"
#include "kernels/launch.h"

namespace kvtier::kernels {

inline constexpr uint32_t kTilePairs = kCodecTile / 2;
inline constexpr uint32_t kRawTileBytes = kCodecTile * sizeof(uint16_t);

// 16 values of 16 bits; of each pair the first is in the low half.
struct DeviceTile {
  uint32_t pairs[kTilePairs];

  __device__ uint16_t element(uint32_t i) const {
    return static_cast<uint16_t>(i % 2 == 0 ? pairs[i / 2] : pairs[i / 2] >> 16);
  }
};

__device__ inline DeviceTile TileOf(uint4 low, uint4 high) {
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
// Loads a tile; it stays in the L1 cache for a second load.
__device__ inline DeviceTile LoadTile(const std::byte* from) {
  const auto* const words = reinterpret_cast<const uint4*>(from);
  return TileOf(words[0], words[1]);
}
__device__ inline void StoreTile(const DeviceTile& tile, std::byte* to) {
  auto* const words = reinterpret_cast<uint4*>(to);
  const uint32_t* const pairs = tile.pairs;
  __stcs(words, uint4{pairs[0], pairs[1], pairs[2], pairs[3]});
  __stcs(words + 1, uint4{pairs[4], pairs[5], pairs[6], pairs[7]});
}

// 16 codes of 8 bits.
struct DeviceCodes {
  uint32_t words[4] = {0, 0, 0, 0};

  __device__ void Set(uint32_t i, uint32_t code) { words[i / 4] |= code << i % 4 * 8; }
  __device__ uint8_t Get(uint32_t i) const {
    return static_cast<uint8_t>(words[i / 4] >> i % 4 * 8);
  }
  __device__ void Store(std::byte* to) const {
    __stcs(reinterpret_cast<uint4*>(to), uint4{words[0], words[1], words[2], words[3]});
  }
  __device__ static DeviceCodes Load(const std::byte* from) {
    const uint4 loaded = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
  }
};

// 16 codes of 4 bits, packed as codec_layout.h says.
struct DeviceNibbles {
  uint32_t words[2] = {0, 0};

  __device__ void Set(uint32_t i, uint32_t code) { words[i / 4 % 2] |= code << Shift(i); }
  __device__ uint8_t Get(uint32_t i) const {
    return static_cast<uint8_t>(words[i / 4 % 2] >> Shift(i) & 0xf);
  }
  __device__ void Store(std::byte* to) const {
    __stcs(reinterpret_cast<uint2*>(to), uint2{words[0], words[1]});
  }
  __device__ static DeviceNibbles Load(const std::byte* from) {
    const uint2 loaded = __ldcs(reinterpret_cast<const uint2*>(from));
    return {{loaded.x, loaded.y}};
  }

 private:
  __device__ static constexpr uint32_t Shift(uint32_t i) { return i % 4 * 8 + i / 8 * 4; }
};

// Returns MagnitudeOf both elements of a pair.
__device__ inline uint32_t MagnitudesOf(uint32_t pair) { return pair & 0x7fff7fff; }
__device__ inline uint32_t LargerOfPair(uint32_t magnitudes) {
  const uint32_t low = magnitudes & 0xffff;
  const uint32_t high = magnitudes >> 16;
  return low < high ? high : low;
}
__device__ inline uint32_t LargestMagnitude(const DeviceTile& tile) {
  uint32_t largest = 0;
#pragma unroll
  for (const uint32_t pair : tile.pairs) largest = __vmaxu2(largest, MagnitudesOf(pair));
  return LargerOfPair(largest);
}

// Distribution of a plane's rows over the lanes of a warp: whole rows side by side where they fit,
// `tiles` lanes each; otherwise all lanes share one row.
struct RowLanes {
  uint32_t tiles = 0;  // Number of tiles in a row.
  uint32_t rows = 0;   // Number of rows in the plane.

  KVTIER_HOST_DEVICE constexpr bool fit() const { return tiles <= kWarpLanes; }
  KVTIER_HOST_DEVICE constexpr uint32_t at_once() const { return fit() ? kWarpLanes / tiles : 1; }
};

// Returns the largest of a row's magnitudes to the lanes of that row. Lanes that belong to no row
// pass 0. All lanes of the warp must call it.
__device__ inline uint32_t LargestOfRow(uint32_t largest, uint32_t tiles) {
  const uint32_t row = LaneOfWarp() / tiles;
  // No lane reads beyond: counting a maximum twice does not change it.
  const uint32_t end = (row + 1) * tiles;
  for (uint32_t by = 1; by < tiles; by *= 2) {
    const uint32_t other = __shfl_down_sync(kAllLanes, largest, by);
    if (LaneOfWarp() + by < end && largest < other) largest = other;
  }
  return __shfl_sync(kAllLanes, largest, row * tiles % kWarpLanes);
}

// Returns the largest magnitude of a row that has more tiles than a warp has lanes.
__device__ inline uint32_t LargestOfLongRow(const std::byte* raw, uint32_t tiles) {
  uint32_t largest = 0;
#pragma unroll 4
  for (uint32_t i = LaneOfWarp(); i < tiles; i += kWarpLanes) {
    const uint32_t of_tile = LargestMagnitude(LoadTile(raw + uint64_t{i} * kRawTileBytes));
    largest = largest < of_tile ? of_tile : largest;
  }
  return LargestOfRow(largest, kWarpLanes);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_DEVICE_TILE_CUH_
