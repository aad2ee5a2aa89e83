// Quantises planes on the device. A warp takes one unit of a plane at a time, a few KiB, and does
// not depend on other warps. Each lane works on whole tiles.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/device_tile.cuh"
#include "kernels/plane_launches.cuh"
#include "kernels/quantizers.h"

namespace kvtier::kernels {
namespace {

// Number of tiles that a lane loads before it works on the first: 128 bytes, 4 KiB a warp.
inline constexpr uint32_t kTilesHeld = 4;

// Values that are the same for all planes of one axis.
struct AxisWork {
  bool by_channel = false;
  RowLanes rows;         // Used unless by_channel.
  uint32_t columns = 0;  // Number of tiles of one token; used if by_channel.
  uint32_t tiles = 0;    // Number of tiles in the plane.
  uint32_t encode_units = 0;
  uint32_t decode_units = 0;
  uint32_t offset = 0;      // Offset of the plane in an encoded layer.
  uint32_t scales_end = 0;  // Start of the padding after the plane's scales.
  uint32_t codes = 0;       // Start of the plane's codes.
};

struct QuantizeWork {
  AxisWork axes[2];
  uint32_t axis_count = 0;
  uint32_t layers = 0;
  uint32_t raw_plane_bytes = 0;
  uint32_t layer_bytes = 0;  // Size of an encoded layer.
};

template <bool kEncode>
__device__ uint32_t UnitsOf(const AxisWork& axis) {
  return kEncode ? axis.encode_units : axis.decode_units;
}

// Makes the work of a launch. REQUIRES: the codec quantises, IsEncodable(shape).
QuantizeWork QuantizeWorkOf(Codec codec, const KvShape& shape) {
  QuantizeWork work;
  work.axis_count = shape.axes;
  work.layers = shape.layers;
  work.raw_plane_bytes = static_cast<uint32_t>(RawPlaneBytes(shape));
  for (uint32_t i = 0; i < shape.axes; ++i) {
    AxisWork& axis = work.axes[i];
    axis.by_channel = StepsByChannel(codec, i);
    axis.tiles = static_cast<uint32_t>(PlaneElements(shape) / kCodecTile);
    uint32_t steps = 0;
    if (axis.by_channel) {
      axis.columns = static_cast<uint32_t>(Channels(shape) / kCodecTile);
      axis.encode_units = (axis.columns + kWarpLanes - 1) / kWarpLanes;
      axis.decode_units = axis.encode_units;
      steps = axis.columns * kCodecTile;
    } else {
      axis.rows = {.tiles = shape.head_dim / kCodecTile,
                   .rows = static_cast<uint32_t>(Rows(shape))};
      const uint32_t unit = axis.rows.fit() ? axis.rows.at_once() * kTilesHeld : 1;
      axis.encode_units = (axis.rows.rows + unit - 1) / unit;
      axis.decode_units = (axis.tiles + kTilesHeld * kWarpLanes - 1) / (kTilesHeld * kWarpLanes);
      steps = axis.rows.rows;
    }
    axis.offset = work.layer_bytes;
    axis.scales_end = steps * sizeof(uint16_t);
    axis.codes = static_cast<uint32_t>(ScaleBytes(codec, shape, i));
    work.layer_bytes += static_cast<uint32_t>(PlaneBytes(codec, shape, i));
  }
  return work;
}

// Encodes one tile. `step_at(i)` is the step of element i.
template <typename Quantizer, typename StepAt>
__device__ void EncodeTile(const DeviceTile& tile, StepAt step_at, std::byte* to) {
  DeviceCodes codes;
#pragma unroll
  for (uint32_t i = 0; i < kCodecTile; ++i) {
    codes.Set(i, CodeOf<Quantizer>(tile.element(i), step_at(i)));
  }
  codes.Store(to);
}

template <typename Quantizer, typename StepAt>
__device__ void DecodeTile(const DeviceCodes& codes, StepAt step_at, std::byte* to) {
  DeviceTile tile = {};
#pragma unroll
  for (uint32_t i = 0; i < kCodecTile; ++i) {
    const uint16_t element = ElementOf<Quantizer>(codes.Get(i), step_at(i));
    tile.pairs[i / 2] |= uint32_t{element} << i % 2 * 16;
  }
  StoreTile(tile, to);
}

template <typename Quantizer>
struct PlaneCoder {
  const AxisWork axis;

  // Encodes one unit. Returns false in a lane that saw a value that is not finite. All lanes of the
  // warp must call this, and the methods below.
  __device__ bool Encode(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    if (unit == 0) Pad(encoded);
    if (axis.by_channel) return EncodeColumns(unit, raw, encoded);
    if (axis.rows.fit()) return EncodeRows(unit, raw, encoded);
    return EncodeLongRow(unit, raw, encoded);
  }

  __device__ void Decode(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    if (axis.by_channel) {
      DecodeColumns(unit, encoded, raw);
    } else {
      DecodeTiles(unit, encoded, raw);
    }
  }

 private:
  // Pads the scales to the next multiple of 16 bytes.
  __device__ void Pad(std::byte* encoded) const {
    const uint32_t at = axis.scales_end + LaneOfWarp();
    if (at < axis.codes) encoded[at] = std::byte{0};
  }

  __device__ bool EncodeRows(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    const uint32_t tiles = axis.rows.tiles;
    const uint32_t at_once = axis.rows.at_once();
    const uint32_t row_of_lane = LaneOfWarp() / tiles;
    const uint32_t tile_of_lane = LaneOfWarp() - row_of_lane * tiles;
    DeviceTile held[kTilesHeld];
    bool mine[kTilesHeld];
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t row = (unit * kTilesHeld + k) * at_once + row_of_lane;
      mine[k] = row_of_lane < at_once && row < axis.rows.rows;
      held[k] = {};
      if (mine[k]) held[k] = LoadTile(RawOf(row * tiles + tile_of_lane, raw));
    }
    bool finite = true;
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t largest = LargestOfRow(LargestMagnitude(held[k]), tiles);
      if (!mine[k]) continue;
      finite = finite && largest < kFirstNotFinite;
      const uint16_t stored = StepOf<Quantizer>(static_cast<uint16_t>(largest));
      const float step = FloatFromBf16(stored);
      const uint32_t row = (unit * kTilesHeld + k) * at_once + row_of_lane;
      if (tile_of_lane == 0) reinterpret_cast<uint16_t*>(encoded)[row] = stored;
      EncodeTile<Quantizer>(
          held[k], [step](uint32_t) { return step; }, CodesOf(row * tiles + tile_of_lane, encoded));
    }
    return finite;
  }

  __device__ bool EncodeLongRow(uint32_t row, const std::byte* raw, std::byte* encoded) const {
    const uint32_t tiles = axis.rows.tiles;
    const uint32_t first = row * tiles;
    const uint32_t largest = LargestOfLongRow(RawOf(first, raw), tiles);
    const uint16_t stored = StepOf<Quantizer>(static_cast<uint16_t>(largest));
    const float step = FloatFromBf16(stored);
    if (LaneOfWarp() == 0) reinterpret_cast<uint16_t*>(encoded)[row] = stored;
#pragma unroll 2
    for (uint32_t i = first + LaneOfWarp(); i < first + tiles; i += kWarpLanes) {
      EncodeTile<Quantizer>(
          LoadTile(RawOf(i, raw)), [step](uint32_t) { return step; }, CodesOf(i, encoded));
    }
    return largest < kFirstNotFinite;
  }

  // Encodes columns. A lane goes down its column, one tile of every token, twice; the second pass
  // reads from the cache.
  __device__ bool EncodeColumns(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    const uint32_t column = unit * kWarpLanes + LaneOfWarp();
    if (column >= axis.columns) return true;  // Nothing below needs the whole warp.
    DeviceTile largest = {};
#pragma unroll 4
    for (uint32_t i = column; i < axis.tiles; i += axis.columns) {
      const DeviceTile tile = LoadTile(RawOf(i, raw));
#pragma unroll
      for (uint32_t j = 0; j < kTilePairs; ++j) {
        largest.pairs[j] = __vmaxu2(largest.pairs[j], MagnitudesOf(tile.pairs[j]));
      }
    }
    bool finite = true;
    DeviceTile stored = {};
#pragma unroll
    for (uint32_t i = 0; i < kCodecTile; ++i) {
      finite = finite && largest.element(i) < kFirstNotFinite;
      stored.pairs[i / 2] |= uint32_t{StepOf<Quantizer>(largest.element(i))} << i % 2 * 16;
    }
    StoreTile(stored, encoded + uint64_t{column} * kRawTileBytes);
#pragma unroll 2
    for (uint32_t i = column; i < axis.tiles; i += axis.columns) {
      EncodeTile<Quantizer>(
          LoadTile(RawOf(i, raw)),
          [&stored](uint32_t j) { return FloatFromBf16(stored.element(j)); }, CodesOf(i, encoded));
    }
    return finite;
  }

  __device__ void DecodeTiles(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    DeviceCodes held[kTilesHeld];
    uint16_t steps[kTilesHeld];
    const uint32_t first = unit * kTilesHeld * kWarpLanes + LaneOfWarp();
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kWarpLanes;
      if (tile >= axis.tiles) continue;
      held[k] = DeviceCodes::Load(CodesOf(tile, encoded));
      steps[k] = reinterpret_cast<const uint16_t*>(encoded)[tile / axis.rows.tiles];
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kWarpLanes;
      if (tile >= axis.tiles) continue;
      const float step = FloatFromBf16(steps[k]);
      DecodeTile<Quantizer>(held[k], [step](uint32_t) { return step; }, RawOf(tile, raw));
    }
  }

  __device__ void DecodeColumns(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    const uint32_t column = unit * kWarpLanes + LaneOfWarp();
    if (column >= axis.columns) return;
    const DeviceTile steps = LoadTile(encoded + uint64_t{column} * kRawTileBytes);
#pragma unroll 4
    for (uint32_t i = column; i < axis.tiles; i += axis.columns) {
      DecodeTile<Quantizer>(
          DeviceCodes::Load(CodesOf(i, encoded)),
          [&steps](uint32_t j) { return FloatFromBf16(steps.element(j)); }, RawOf(i, raw));
    }
  }

  template <typename Byte>
  __device__ static Byte* RawOf(uint32_t tile, Byte* raw) {
    return raw + uint64_t{tile} * kRawTileBytes;
  }
  template <typename Byte>
  __device__ Byte* CodesOf(uint32_t tile, Byte* encoded) const {
    return encoded + axis.codes + uint64_t{tile} * kCodecTile;
  }
};

template <typename Quantizer, bool kEncode>
__global__ void __launch_bounds__(kThreads, 2)
    QuantizeKernel(const CodecBlock* blocks, CodecOutcome* outcomes, uint32_t count, Codec codec,
                   QuantizeWork work) {
  const uint32_t first_units = UnitsOf<kEncode>(work.axes[0]);
  const uint32_t layer_units = first_units + UnitsOf<kEncode>(work.axes[1]);
  for (UnitWalk walk(layer_units * work.layers, WarpOfLaunch(), WarpsOfLaunch());
       walk.block() < count; walk.Next()) {
    const uint32_t i = walk.block();
    const CodecBlock block = blocks[i];
    if (__shfl_sync(kAllLanes, IsLive(outcomes[i], codec) ? 1 : 0, 0) == 0) continue;
    const uint32_t layer = walk.unit() / layer_units;
    const uint32_t unit = walk.unit() - layer * layer_units;
    const uint32_t axis = unit < first_units ? 0 : 1;
    // Selects instead of indexing, because an indexed array would be in memory.
    const PlaneCoder<Quantizer> plane = {axis == 0 ? work.axes[0] : work.axes[1]};
    const uint64_t raw = uint64_t{layer * work.axis_count + axis} * work.raw_plane_bytes;
    const uint64_t encoded =
        kEncodedHeaderBytes + uint64_t{layer} * work.layer_bytes + plane.axis.offset;
    const uint32_t unit_of_plane = axis == 0 ? unit : unit - first_units;
    if constexpr (kEncode) {
      if (!plane.Encode(unit_of_plane, block.source + raw, block.destination + encoded)) {
        StayRaw(outcomes[i]);
      }
    } else {
      plane.Decode(unit_of_plane, block.source + encoded, block.destination + raw);
    }
  }
}

template <bool kEncode>
int LaunchQuantize(const CodecLaunch& launch) {
  const Grid grid = {launch.thread_blocks, launch.stream};
  const auto kernel = launch.codec == Codec::kInt8 ? QuantizeKernel<Int8Quantizer, kEncode>
                                                   : QuantizeKernel<E4m3Quantizer, kEncode>;
  return Launch(grid, kernel, launch.blocks, launch.outcomes, launch.count, launch.codec,
                QuantizeWorkOf(launch.codec, launch.shape));
}

}  // namespace

int QuantizeOnDevice(const CodecLaunch& launch) { return LaunchQuantize<true>(launch); }
int DequantizeOnDevice(const CodecLaunch& launch) { return LaunchQuantize<false>(launch); }

}  // namespace kvtier::kernels
