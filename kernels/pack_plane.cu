// Packs planes on the device. A thread block takes a plane: escapes are in the order of the
// elements, so the threads have to count together. It first finds the bases of all rows, then packs
// the tiles in order, which are in the cache by then.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/device_tile.cuh"
#include "kernels/exponents.h"
#include "kernels/plane_launches.cuh"

namespace kvtier::kernels {
namespace {

constexpr uint32_t kSignBytes = kCodecTile;
constexpr uint32_t kDeltaBytes = kCodecTile / 2;
// Number of tiles that a thread loads before it works on the first.
constexpr uint32_t kTilesHeld = 2;

// Values that are the same for all planes of a launch.
struct PackWork {
  RowLanes rows;
  uint32_t tiles = 0;  // Number of tiles in the plane.
  uint32_t planes = 0;
  uint32_t raw_plane_bytes = 0;
  uint32_t signs = 0;
  uint32_t deltas = 0;
  uint32_t deltas_end = 0;  // Start of the padding.
  uint32_t escapes = 0;
  uint32_t most_escapes = 0;
  uint32_t plane_bytes = 0;
};

PackWork PackWorkOf(const KvShape& shape) {
  const PackedPlane plane = PackedPlaneOf(shape);
  return {
      .rows = {.tiles = shape.head_dim / kCodecTile, .rows = static_cast<uint32_t>(Rows(shape))},
      .tiles = static_cast<uint32_t>(PlaneElements(shape) / kCodecTile),
      .planes = static_cast<uint32_t>(Planes(shape)),
      .raw_plane_bytes = static_cast<uint32_t>(RawPlaneBytes(shape)),
      .signs = static_cast<uint32_t>(plane.signs),
      .deltas = static_cast<uint32_t>(plane.deltas),
      .deltas_end = static_cast<uint32_t>(plane.deltas + PlaneElements(shape) / 2),
      .escapes = static_cast<uint32_t>(plane.escapes),
      .most_escapes = plane.most_escapes(),
      .plane_bytes = static_cast<uint32_t>(plane.bytes)};
}

// Rank of a thread's escapes among those of its thread block, in the order of the threads.
struct Rank {
  uint32_t before = 0;
  uint32_t all = 0;
};

// Ranks `count` escapes of each thread. All threads of the thread block must call it.
__device__ Rank RankOf(uint32_t count) {
  __shared__ uint32_t totals[kWarps];
  // Usually there are no escapes. This is also the barrier after the reads of the previous call.
  if (__syncthreads_or(count != 0) == 0) return {};
  uint32_t up_to = count;
#pragma unroll
  for (uint32_t by = 1; by < kWarpLanes; by *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, up_to, by);
    if (LaneOfWarp() >= by) up_to += other;
  }
  const uint32_t warp = threadIdx.x / kWarpLanes;
  if (LaneOfWarp() == kWarpLanes - 1) totals[warp] = up_to;
  __syncthreads();
  Rank rank = {up_to - count, 0};
#pragma unroll
  for (uint32_t i = 0; i < kWarps; ++i) {
    if (i < warp) rank.before += totals[i];
    rank.all += totals[i];
  }
  return rank;
}

// Writes the base of every row. Returns false in a lane that saw an element that is not finite.
__device__ bool StoreBases(const PackWork& work, const std::byte* raw, std::byte* encoded) {
  bool finite = true;
  const uint32_t warp = threadIdx.x / kWarpLanes;
  const uint32_t tiles = work.rows.tiles;
  if (!work.rows.fit()) {
    for (uint32_t row = warp; row < work.rows.rows; row += kWarps) {
      const uint32_t largest = LargestOfLongRow(raw + uint64_t{row} * tiles * kRawTileBytes, tiles);
      finite = finite && largest < kExponentMask;
      if (LaneOfWarp() == 0) encoded[row] = static_cast<std::byte>(largest >> 7);
    }
    return finite;
  }
  const uint32_t at_once = work.rows.at_once();
  const uint32_t row_of_lane = LaneOfWarp() / tiles;
  const uint32_t tile_of_lane = LaneOfWarp() - row_of_lane * tiles;
  for (uint32_t first = warp * kTilesHeld * at_once; first < work.rows.rows;
       first += kWarps * kTilesHeld * at_once) {
    DeviceTile held[kTilesHeld];
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t row = first + k * at_once + row_of_lane;
      held[k] = {};
      if (row_of_lane < at_once && row < work.rows.rows) {
        held[k] = LoadTile(raw + uint64_t{row * tiles + tile_of_lane} * kRawTileBytes);
      }
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t row = first + k * at_once + row_of_lane;
      // The largest magnitude has the largest exponent.
      const uint32_t base = LargestOfRow(LargestMagnitude(held[k]), tiles) >> 7;
      finite = finite && base != 0xff;
      if (row_of_lane < at_once && row < work.rows.rows && tile_of_lane == 0) {
        encoded[row] = static_cast<std::byte>(base);
      }
    }
  }
  return finite;
}

// Packs the tiles. Returns false, to all threads, if there are more escapes than room for them.
__device__ bool StoreTiles(const PackWork& work, const std::byte* raw, std::byte* encoded) {
  std::byte* const escapes = encoded + work.escapes + sizeof(uint32_t);
  uint32_t escaped = 0;
  for (uint32_t chunk = 0; chunk < work.tiles; chunk += kTilesHeld * kThreads) {
    const uint32_t first = chunk + threadIdx.x;
    DeviceTile held[kTilesHeld];
    uint8_t bases[kTilesHeld];
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kThreads;
      if (tile >= work.tiles) continue;
      held[k] = LoadTile(raw + uint64_t{tile} * kRawTileBytes);
      bases[k] = static_cast<uint8_t>(encoded[tile / work.rows.tiles]);
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kThreads;
      uint32_t which = 0;  // Has a bit for each escaped element.
      if (tile < work.tiles) {
        DeviceCodes signs;
        DeviceNibbles deltas;
#pragma unroll
        for (uint32_t i = 0; i < kCodecTile; ++i) {
          const uint16_t element = held[k].element(i);
          const uint8_t delta = DeltaOf(bases[k], ExponentOf(element));
          signs.Set(i, SignMantissaOf(element));
          deltas.Set(i, delta);
          which |= (delta == kDeltaEscape ? 1U : 0U) << i;
        }
        signs.Store(encoded + work.signs + uint64_t{tile} * kSignBytes);
        deltas.Store(encoded + work.deltas + uint64_t{tile} * kDeltaBytes);
      }
      const Rank rank = RankOf(__popc(which));
      if (which != 0) {
        uint32_t place = escaped + rank.before;
#pragma unroll
        for (uint32_t i = 0; i < kCodecTile; ++i) {
          if ((which >> i & 1) == 0) continue;
          if (place < work.most_escapes) {
            escapes[place] = static_cast<std::byte>(ExponentOf(held[k].element(i)));
          }
          ++place;
        }
      }
      escaped += rank.all;
    }
  }
  if (escaped > work.most_escapes) return false;
  for (uint32_t i = escaped + threadIdx.x; i < work.most_escapes; i += kThreads) {
    escapes[i] = std::byte{0};
  }
  if (threadIdx.x == 0) *reinterpret_cast<uint32_t*>(encoded + work.escapes) = escaped;
  return true;
}

__device__ void Pad(const PackWork& work, std::byte* encoded) {
  const uint32_t i = threadIdx.x;
  if (work.rows.rows + i < work.signs) encoded[work.rows.rows + i] = std::byte{0};
  if (work.deltas_end + i < work.escapes) encoded[work.deltas_end + i] = std::byte{0};
}

// Unpacks the tiles. Returns false, to all threads, if the escapes do not add up.
__device__ bool LoadTiles(const PackWork& work, const std::byte* encoded, std::byte* raw) {
  const uint32_t count = *reinterpret_cast<const uint32_t*>(encoded + work.escapes);
  if (count > work.most_escapes) return false;
  const std::byte* const escapes = encoded + work.escapes + sizeof(uint32_t);
  uint32_t escaped = 0;
  for (uint32_t chunk = 0; chunk < work.tiles; chunk += kTilesHeld * kThreads) {
    const uint32_t first = chunk + threadIdx.x;
    DeviceCodes signs[kTilesHeld];
    DeviceNibbles deltas[kTilesHeld];
    uint8_t bases[kTilesHeld];
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kThreads;
      if (tile >= work.tiles) continue;
      signs[k] = DeviceCodes::Load(encoded + work.signs + uint64_t{tile} * kSignBytes);
      deltas[k] = DeviceNibbles::Load(encoded + work.deltas + uint64_t{tile} * kDeltaBytes);
      bases[k] = static_cast<uint8_t>(encoded[tile / work.rows.tiles]);
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kThreads;
      uint32_t which = 0;
#pragma unroll
      for (uint32_t i = 0; i < kCodecTile; ++i) {
        if (tile < work.tiles) which |= (deltas[k].Get(i) == kDeltaEscape ? 1U : 0U) << i;
      }
      const Rank rank = RankOf(__popc(which));
      uint32_t place = escaped + rank.before;
      escaped += rank.all;
      if (tile >= work.tiles) continue;
      DeviceTile out = {};
#pragma unroll
      for (uint32_t i = 0; i < kCodecTile; ++i) {
        uint8_t exponent = ExponentAt(bases[k], deltas[k].Get(i));
        if ((which >> i & 1) != 0) {
          if (place < count) exponent = static_cast<uint8_t>(escapes[place]);
          ++place;
        }
        out.pairs[i / 2] |= uint32_t{Bf16Of(signs[k].Get(i), exponent)} << i % 2 * 16;
      }
      StoreTile(out, raw + uint64_t{tile} * kRawTileBytes);
    }
  }
  return escaped == count;
}

template <bool kEncode>
__global__ void __launch_bounds__(kThreads)
    PackKernel(const CodecBlock* blocks, CodecOutcome* outcomes, uint32_t count, PackWork work) {
  for (UnitWalk walk(work.planes, blockIdx.x, gridDim.x); walk.block() < count; walk.Next()) {
    CodecOutcome& outcome = outcomes[walk.block()];
    const bool live = threadIdx.x == 0 && IsLive(outcome, Codec::kPackedExponents);
    if (__syncthreads_or(live) == 0) continue;
    const CodecBlock block = blocks[walk.block()];
    const uint64_t raw = uint64_t{walk.unit()} * work.raw_plane_bytes;
    const uint64_t encoded = kEncodedHeaderBytes + uint64_t{walk.unit()} * work.plane_bytes;
    if constexpr (kEncode) {
      std::byte* const to = block.destination + encoded;
      const bool finite = StoreBases(work, block.source + raw, to);
      Pad(work, to);
      const bool done = __syncthreads_or(!finite) == 0 && StoreTiles(work, block.source + raw, to);
      if (!done && threadIdx.x == 0) StayRaw(outcome);
    } else {
      const bool done = LoadTiles(work, block.source + encoded, block.destination + raw);
      if (!done && threadIdx.x == 0) Refuse(outcome);
    }
  }
}

template <bool kEncode>
int LaunchPack(const CodecLaunch& launch) {
  return Launch({launch.thread_blocks, launch.stream}, PackKernel<kEncode>, launch.blocks,
                launch.outcomes, launch.count, PackWorkOf(launch.shape));
}

}  // namespace

int PackOnDevice(const CodecLaunch& launch) { return LaunchPack<true>(launch); }
int UnpackOnDevice(const CodecLaunch& launch) { return LaunchPack<false>(launch); }

}  // namespace kvtier::kernels
