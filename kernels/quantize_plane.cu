// A warp takes a unit of a plane at a time, a few KiB, and needs nobody else. Each lane
// works on whole tiles.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/codec_layout.h"
#include "kernels/device_tile.cuh"
#include "kernels/plane_launches.cuh"
#include "kernels/quantizers.h"
#include "kernels/step_ratio.cuh"

namespace kvtier::kernels {
namespace {

// Tiles that a lane loads before it works on the first: 128 bytes, 4 KiB a warp.
inline constexpr uint32_t kTilesHeld = 4;

// What is the same for all planes of one axis.
struct AxisWork {
  bool along_tokens = false;
  GroupLanes lanes;           // Along dim.
  uint32_t group_tokens = 0;  // Along tokens.
  uint32_t columns = 0;       // Along tokens: a column is a tile's channels in one group.
  uint32_t groups = 0;        // Steps of the plane.
  uint32_t tiles = 0;         // Of the plane.
  uint32_t encode_units = 0;
  uint32_t decode_units = 0;
  uint32_t offset = 0;       // Of the plane in an encoded layer.
  uint32_t codes = 0;        // Of the codes in the plane.
  uint32_t codes_end = 0;    // Where padding begins.
  uint32_t plane_bytes = 0;  // Encoded.
};

struct QuantizeWork {
  AxisWork axes[2];
  uint32_t axis_count = 0;
  uint32_t layers = 0;
  uint32_t tokens = 0;
  uint32_t channel_tiles = 0;  // Of one token.
  uint32_t raw_plane_bytes = 0;
  uint32_t layer_bytes = 0;  // Encoded.
};

template <bool kEncode>
__device__ uint32_t UnitsOf(const AxisWork& axis) {
  return kEncode ? axis.encode_units : axis.decode_units;
}

// REQUIRES: codec quantises, IsEncodable(shape).
QuantizeWork QuantizeWorkOf(Codec codec, const KvShape& shape) {
  QuantizeWork work;
  work.axis_count = shape.axes;
  work.layers = shape.layers;
  work.tokens = shape.tokens;
  work.channel_tiles = static_cast<uint32_t>(Channels(shape) / kTile);
  work.raw_plane_bytes = static_cast<uint32_t>(RawPlaneBytes(shape));
  for (uint32_t i = 0; i < shape.axes; ++i) {
    const Grouping grouping = GroupingOf(codec, shape, i);
    AxisWork& axis = work.axes[i];
    axis.along_tokens = grouping.along_tokens;
    axis.tiles = static_cast<uint32_t>(PlaneElements(shape) / kTile);
    axis.decode_units = (axis.tiles + kTilesHeld * kWarpLanes - 1) / (kTilesHeld * kWarpLanes);
    if (grouping.along_tokens) {
      axis.group_tokens = grouping.length;
      const uint32_t token_groups = (shape.tokens + grouping.length - 1) / grouping.length;
      axis.columns = token_groups * work.channel_tiles;
      axis.groups = axis.columns * kTile;
      axis.encode_units = (axis.columns + kWarpLanes - 1) / kWarpLanes;
      axis.decode_units = axis.encode_units;
    } else {
      axis.lanes = {.tiles = grouping.length / kTile,
                    .groups = static_cast<uint32_t>(PlaneElements(shape) / grouping.length)};
      axis.groups = axis.lanes.groups;
      const uint32_t unit = axis.lanes.fit() ? axis.lanes.at_once() * kTilesHeld : 1;
      axis.encode_units = (axis.groups + unit - 1) / unit;
    }
    const uint32_t code_bits = codec == Codec::kInt4 ? 4 : 8;
    axis.offset = work.layer_bytes;
    axis.codes = static_cast<uint32_t>(ScaleBytes(shape, grouping));
    axis.codes_end = axis.codes + axis.tiles * kTile * code_bits / 8;
    axis.plane_bytes = static_cast<uint32_t>(PlaneBytes(codec, shape, i));
    work.layer_bytes += axis.plane_bytes;
  }
  return work;
}

// One step for a whole tile.
struct OneStep {
  uint16_t step;
  float inverse;

  __device__ explicit OneStep(uint16_t of) : step(of), inverse(InverseOf(of)) {}
  __device__ bool quick() const { return IsQuickStep(step); }
  __device__ uint16_t StepAt(uint32_t /*i*/) const { return step; }
  __device__ float InverseAt(uint32_t /*i*/) const { return inverse; }
};

// A step for each element.
struct TileSteps {
  DeviceTile steps;
  float inverses[kTile];

  __device__ explicit TileSteps(const DeviceTile& of) : steps(of) {
#pragma unroll
    for (uint32_t i = 0; i < kTile; ++i) inverses[i] = InverseOf(steps.element(i));
  }
  __device__ bool quick() const {
    bool all = true;
#pragma unroll
    for (uint32_t i = 0; i < kTile; ++i) all = all && IsQuickStep(steps.element(i));
    return all;
  }
  __device__ uint16_t StepAt(uint32_t i) const { return steps.element(i); }
  __device__ float InverseAt(uint32_t i) const { return inverses[i]; }
};

template <typename Quantizer, typename Steps>
__device__ void EncodeTile(const DeviceTile& tile, const Steps& steps, bool quick, std::byte* to) {
  DeviceCodes<Quantizer::kBits> codes;
  if (quick) {
#pragma unroll
    for (uint32_t i = 0; i < kTile; ++i) {
      const float ratio = QuickRatio(tile.element(i), steps.StepAt(i), steps.InverseAt(i));
      codes.Set(i, Quantizer::Encode(ratio));
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < kTile; ++i) {
      codes.Set(i, CodeOf<Quantizer>(tile.element(i), FloatFromBf16(steps.StepAt(i))));
    }
  }
  codes.Store(to);
}

template <typename Quantizer>
struct PlaneCoder {
  static constexpr uint32_t kCodeBytes = kTile * Quantizer::kBits / 8;

  const QuantizeWork& work;
  const AxisWork axis;

  // Returns false where a lane saw a value that is not finite. For whole warps, as all.
  __device__ bool Encode(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    if (unit == 0) Pad(encoded);
    if (axis.along_tokens) return EncodeColumns(unit, raw, encoded);
    if (axis.lanes.fit()) return EncodeGroups(unit, raw, encoded);
    return EncodeLongGroup(unit, raw, encoded);
  }

  __device__ void Decode(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    if (axis.along_tokens) {
      DecodeColumns(unit, encoded, raw);
    } else {
      DecodeTiles(unit, encoded, raw);
    }
  }

 private:
  // What scales and codes leave to the next multiple of 16 bytes.
  __device__ void Pad(std::byte* encoded) const {
    const uint32_t lane = LaneOfWarp();
    const uint32_t scales_end = axis.groups * sizeof(uint16_t);
    if (scales_end + lane < axis.codes) encoded[scales_end + lane] = std::byte{0};
    if (axis.codes_end + lane < axis.plane_bytes) encoded[axis.codes_end + lane] = std::byte{0};
  }

  __device__ bool EncodeGroups(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    const uint32_t tiles = axis.lanes.tiles;
    const uint32_t at_once = axis.lanes.at_once();
    const uint32_t group_of_lane = LaneOfWarp() / tiles;
    const uint32_t tile_of_lane = LaneOfWarp() - group_of_lane * tiles;
    DeviceTile held[kTilesHeld];
    bool mine[kTilesHeld];
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t group = (unit * kTilesHeld + k) * at_once + group_of_lane;
      mine[k] = group_of_lane < at_once && group < axis.groups;
      held[k] = {};
      if (mine[k]) held[k] = LoadTile(raw + uint64_t{group * tiles + tile_of_lane} * kRawTileBytes);
    }
    bool finite = true;
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t largest = LargestOfGroup(LargestKey(held[k]), tiles);
      if (!mine[k]) continue;
      finite = finite && largest < kFirstNotFiniteKey;
      const OneStep step(StepOf<Quantizer>(static_cast<uint16_t>(largest)));
      const uint32_t group = (unit * kTilesHeld + k) * at_once + group_of_lane;
      if (tile_of_lane == 0) StoreStep(step.step, group, encoded);
      EncodeTile<Quantizer>(held[k], step, step.quick(),
                            CodesOf(group * tiles + tile_of_lane, encoded));
    }
    return finite;
  }

  __device__ bool EncodeLongGroup(uint32_t group, const std::byte* raw, std::byte* encoded) const {
    const uint32_t tiles = axis.lanes.tiles;
    raw += uint64_t{group} * tiles * kRawTileBytes;
    const uint32_t largest = LargestOfLongGroup(raw, tiles);
    const OneStep step(StepOf<Quantizer>(static_cast<uint16_t>(largest)));
    if (LaneOfWarp() == 0) StoreStep(step.step, group, encoded);
#pragma unroll 2
    for (uint32_t i = LaneOfWarp(); i < tiles; i += kWarpLanes) {
      EncodeTile<Quantizer>(LoadTile(raw + uint64_t{i} * kRawTileBytes), step, step.quick(),
                            CodesOf(group * tiles + i, encoded));
    }
    return largest < kFirstNotFiniteKey;
  }

  // A lane goes down its column twice; the second time out of the cache.
  __device__ bool EncodeColumns(uint32_t unit, const std::byte* raw, std::byte* encoded) const {
    const uint32_t column = unit * kWarpLanes + LaneOfWarp();
    if (column >= axis.columns) return true;  // Nothing below is for whole warps.
    const Column at(*this, column);
    DeviceTile keys = {};
#pragma unroll 4
    for (uint32_t token = at.first; token < at.end; ++token) {
      const DeviceTile tile = LoadTile(raw + at.TileAt(token) * kRawTileBytes);
#pragma unroll
      for (uint32_t i = 0; i < kTilePairs; ++i) {
        keys.pairs[i] = __vmaxu2(keys.pairs[i], MagnitudeKeys(tile.pairs[i]));
      }
    }
    bool finite = true;
    DeviceTile stored;
#pragma unroll
    for (uint32_t i = 0; i < kTilePairs; ++i) {
      finite = finite && LargerOfPair(keys.pairs[i]) < kFirstNotFiniteKey;
      stored.pairs[i] = StepOf<Quantizer>(static_cast<uint16_t>(keys.pairs[i])) |
                        uint32_t{StepOf<Quantizer>(static_cast<uint16_t>(keys.pairs[i] >> 16))}
                            << 16;
    }
    StoreTile(stored, encoded + uint64_t{column} * kRawTileBytes);
    const TileSteps steps(stored);
    const bool quick = steps.quick();
#pragma unroll 2
    for (uint32_t token = at.first; token < at.end; ++token) {
      const uint32_t tile = at.TileAt(token);
      EncodeTile<Quantizer>(LoadTile(raw + uint64_t{tile} * kRawTileBytes), steps, quick,
                            CodesOf(tile, encoded));
    }
    return finite;
  }

  __device__ void DecodeTiles(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    DeviceCodes<Quantizer::kBits> held[kTilesHeld];
    uint16_t steps[kTilesHeld];
    const uint32_t first = unit * kTilesHeld * kWarpLanes + LaneOfWarp();
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kWarpLanes;
      if (tile >= axis.tiles) continue;
      held[k] = DeviceCodes<Quantizer::kBits>::Load(CodesOf(tile, encoded));
      steps[k] = reinterpret_cast<const uint16_t*>(encoded)[tile / axis.lanes.tiles];
    }
#pragma unroll
    for (uint32_t k = 0; k < kTilesHeld; ++k) {
      const uint32_t tile = first + k * kWarpLanes;
      if (tile >= axis.tiles) continue;
      const float step = FloatFromBf16(steps[k]);
      DeviceTile out = {};
#pragma unroll
      for (uint32_t i = 0; i < kTile; ++i) {
        SetElement(i, ElementOf<Quantizer>(held[k].Get(i), step), out);
      }
      StoreTile(out, raw + uint64_t{tile} * kRawTileBytes);
    }
  }

  __device__ void DecodeColumns(uint32_t unit, const std::byte* encoded, std::byte* raw) const {
    const uint32_t column = unit * kWarpLanes + LaneOfWarp();
    if (column >= axis.columns) return;
    const Column at(*this, column);
    const DeviceTile steps = LoadTile(encoded + uint64_t{column} * kRawTileBytes);
#pragma unroll 4
    for (uint32_t token = at.first; token < at.end; ++token) {
      const uint32_t tile = at.TileAt(token);
      const auto codes = DeviceCodes<Quantizer::kBits>::Load(CodesOf(tile, encoded));
      DeviceTile out = {};
#pragma unroll
      for (uint32_t i = 0; i < kTile; ++i) {
        SetElement(i, ElementOf<Quantizer>(codes.Get(i), FloatFromBf16(steps.element(i))), out);
      }
      StoreTile(out, raw + uint64_t{tile} * kRawTileBytes);
    }
  }

  // The tokens of a column.
  struct Column {
    uint32_t first;
    uint32_t end;
    uint32_t channel;
    uint32_t channel_tiles;

    __device__ Column(const PlaneCoder& plane, uint32_t column)
        : channel_tiles(plane.work.channel_tiles) {
      const uint32_t group = column / channel_tiles;
      channel = column - group * channel_tiles;
      first = group * plane.axis.group_tokens;
      end = first + plane.axis.group_tokens;
      if (end > plane.work.tokens) end = plane.work.tokens;
    }
    __device__ uint32_t TileAt(uint32_t token) const { return token * channel_tiles + channel; }
  };

  __device__ static void SetElement(uint32_t i, uint16_t value, DeviceTile& tile) {
    tile.pairs[i / 2] |= uint32_t{value} << i % 2 * 16;
  }
  __device__ static void StoreStep(uint16_t step, uint32_t group, std::byte* encoded) {
    reinterpret_cast<uint16_t*>(encoded)[group] = step;
  }
  template <typename Byte>
  __device__ Byte* CodesOf(uint32_t tile, Byte* encoded) const {
    return encoded + axis.codes + uint64_t{tile} * kCodeBytes;
  }
};

template <typename Quantizer, bool kEncode>
__global__ void __launch_bounds__(kThreads)
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
    // Chosen, not indexed: what is indexed lies in memory.
    const PlaneCoder<Quantizer> plane = {work, axis == 0 ? work.axes[0] : work.axes[1]};
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
  const auto kernel = launch.codec == Codec::kInt8   ? QuantizeKernel<Int8Quantizer, kEncode>
                      : launch.codec == Codec::kInt4 ? QuantizeKernel<Int4Quantizer, kEncode>
                                                     : QuantizeKernel<E4m3Quantizer, kEncode>;
  return Launch(grid, kernel, launch.blocks, launch.outcomes, launch.count, launch.codec,
                QuantizeWorkOf(launch.codec, launch.shape));
}

}  // namespace

int QuantizeOnDevice(const CodecLaunch& launch) { return LaunchQuantize<true>(launch); }
int DequantizeOnDevice(const CodecLaunch& launch) { return LaunchQuantize<false>(launch); }

}  // namespace kvtier::kernels
