#include "kernels/quantize_plane.h"

#include <algorithm>
#include <cstring>

#include "kernels/quantizers.h"
#include "kernels/tile.h"

namespace kvtier::kernels {
namespace {

constexpr uint64_t kTileBytes = sizeof(Bf16Tile);

// Raises each key of `largest` to that of its element.
void Raise(const Bf16Tile& elements, Bf16Tile& largest) {
  for (uint32_t i = 0; i < kTile; ++i) {
    const uint16_t key = MagnitudeKey(elements[i]);
    largest[i] = largest[i] < key ? key : largest[i];
  }
}

template <typename Quantizer>
void EncodeTile(const std::byte* raw, const FloatTile& steps, std::byte* codes) {
  const auto elements = Load<Bf16Tile>(raw);
  CodeTile tile;
  for (uint32_t i = 0; i < kTile; ++i) tile[i] = CodeOf<Quantizer>(elements[i], steps[i]);
  StoreCodes<Quantizer::kBits>(tile, codes);
}

template <typename Quantizer>
void DecodeTile(const std::byte* codes, const FloatTile& steps, std::byte* raw) {
  const CodeTile tile = LoadCodes<Quantizer::kBits>(codes);
  Bf16Tile elements;
  for (uint32_t i = 0; i < kTile; ++i) elements[i] = ElementOf<Quantizer>(tile[i], steps[i]);
  Store(elements, raw);
}

// The steps of kTile channels from their stored form.
FloatTile LoadSteps(const std::byte* scales) {
  const auto stored = Load<Bf16Tile>(scales);
  FloatTile steps;
  for (uint32_t i = 0; i < kTile; ++i) steps[i] = FloatFromBf16(stored[i]);
  return steps;
}

// One step for a whole tile.
FloatTile LoadStep(const std::byte* scale) {
  FloatTile steps;
  steps.fill(FloatFromBf16(Load<uint16_t>(scale)));
  return steps;
}

// Groups along dim: a plane is a row of groups, each `tiles` tiles.
struct DimGroups {
  uint64_t groups = 0;
  uint64_t tiles = 0;
};

template <typename Quantizer>
bool EncodeAlongDim(DimGroups plane, const std::byte* raw, std::byte* scales, std::byte* codes) {
  for (uint64_t group = 0; group < plane.groups; ++group) {
    Bf16Tile keys{};
    for (uint64_t i = 0; i < plane.tiles; ++i) Raise(Load<Bf16Tile>(raw + i * kTileBytes), keys);
    const uint16_t largest = *std::max_element(keys.begin(), keys.end());
    if (largest >= kFirstNotFiniteKey) return false;
    Store(StepOf<Quantizer>(largest), scales);
    const FloatTile steps = LoadStep(scales);
    scales += sizeof(uint16_t);
    for (uint64_t i = 0; i < plane.tiles; ++i) {
      EncodeTile<Quantizer>(raw, steps, codes);
      raw += kTileBytes;
      codes += kCodeBytes<Quantizer::kBits>;
    }
  }
  return true;
}

template <typename Quantizer>
void DecodeAlongDim(DimGroups plane, const std::byte* scales, const std::byte* codes,
                    std::byte* raw) {
  for (uint64_t group = 0; group < plane.groups; ++group) {
    const FloatTile steps = LoadStep(scales);
    scales += sizeof(uint16_t);
    for (uint64_t i = 0; i < plane.tiles; ++i) {
      DecodeTile<Quantizer>(codes, steps, raw);
      raw += kTileBytes;
      codes += kCodeBytes<Quantizer::kBits>;
    }
  }
}

// Groups along tokens: `tokens` of them at a time, kTile channels side by side.
struct TokenGroups {
  uint64_t tokens = 0;         // Of the plane.
  uint64_t group = 0;          // Tokens of a group; the last may have fewer.
  uint64_t channel_tiles = 0;  // Of one token.
};

template <typename Quantizer>
bool EncodeAlongTokens(TokenGroups plane, const std::byte* raw, std::byte* scales,
                       std::byte* codes) {
  constexpr uint64_t kBytes = kCodeBytes<Quantizer::kBits>;
  for (uint64_t first = 0; first < plane.tokens; first += plane.group) {
    const uint64_t end = std::min(first + plane.group, plane.tokens);
    for (uint64_t channel = 0; channel < plane.channel_tiles; ++channel) {
      Bf16Tile keys{};
      for (uint64_t token = first; token < end; ++token) {
        const uint64_t tile = token * plane.channel_tiles + channel;
        Raise(Load<Bf16Tile>(raw + tile * kTileBytes), keys);
      }
      if (*std::max_element(keys.begin(), keys.end()) >= kFirstNotFiniteKey) return false;
      for (uint16_t& key : keys) key = StepOf<Quantizer>(key);
      Store(keys, scales);
      const FloatTile steps = LoadSteps(scales);
      scales += kTileBytes;
      for (uint64_t token = first; token < end; ++token) {
        const uint64_t tile = token * plane.channel_tiles + channel;
        EncodeTile<Quantizer>(raw + tile * kTileBytes, steps, codes + tile * kBytes);
      }
    }
  }
  return true;
}

template <typename Quantizer>
void DecodeAlongTokens(TokenGroups plane, const std::byte* scales, const std::byte* codes,
                       std::byte* raw) {
  constexpr uint64_t kBytes = kCodeBytes<Quantizer::kBits>;
  for (uint64_t token = 0; token < plane.tokens; ++token) {
    const std::byte* const row = scales + token / plane.group * plane.channel_tiles * kTileBytes;
    for (uint64_t channel = 0; channel < plane.channel_tiles; ++channel) {
      const uint64_t tile = token * plane.channel_tiles + channel;
      DecodeTile<Quantizer>(codes + tile * kBytes, LoadSteps(row + channel * kTileBytes),
                            raw + tile * kTileBytes);
    }
  }
}

DimGroups DimGroupsOf(const KvShape& shape, Grouping grouping) {
  return {.groups = PlaneElements(shape) / grouping.length, .tiles = grouping.length / kTile};
}

TokenGroups TokenGroupsOf(const KvShape& shape, Grouping grouping) {
  return {
      .tokens = shape.tokens, .group = grouping.length, .channel_tiles = Channels(shape) / kTile};
}

template <typename Quantizer>
bool Encode(const PlaneFormat& format, const std::byte* raw, std::byte* encoded) {
  const KvShape& shape = format.shape;
  const Grouping grouping = GroupingOf(format.codec, shape, format.axis);
  std::byte* const codes = encoded + ScaleBytes(shape, grouping);
  std::memset(codes - RoundUpTo16(1), 0, RoundUpTo16(1));  // What the scales may leave.
  std::memset(encoded + PlaneBytes(format.codec, shape, format.axis) - RoundUpTo16(1), 0,
              RoundUpTo16(1));  // And the codes.
  if (grouping.along_tokens) {
    return EncodeAlongTokens<Quantizer>(TokenGroupsOf(shape, grouping), raw, encoded, codes);
  }
  return EncodeAlongDim<Quantizer>(DimGroupsOf(shape, grouping), raw, encoded, codes);
}

template <typename Quantizer>
void Decode(const PlaneFormat& format, const std::byte* encoded, std::byte* raw) {
  const KvShape& shape = format.shape;
  const Grouping grouping = GroupingOf(format.codec, shape, format.axis);
  const std::byte* const codes = encoded + ScaleBytes(shape, grouping);
  if (grouping.along_tokens) {
    DecodeAlongTokens<Quantizer>(TokenGroupsOf(shape, grouping), encoded, codes, raw);
  } else {
    DecodeAlongDim<Quantizer>(DimGroupsOf(shape, grouping), encoded, codes, raw);
  }
}

}  // namespace

bool QuantizePlane(const PlaneFormat& format, const std::byte* raw, std::byte* encoded) {
  if (format.codec == Codec::kInt8) return Encode<Int8Quantizer>(format, raw, encoded);
  if (format.codec == Codec::kInt4) return Encode<Int4Quantizer>(format, raw, encoded);
  return Encode<E4m3Quantizer>(format, raw, encoded);
}

void DequantizePlane(const PlaneFormat& format, const std::byte* encoded, std::byte* raw) {
  if (format.codec == Codec::kInt8) return Decode<Int8Quantizer>(format, encoded, raw);
  if (format.codec == Codec::kInt4) return Decode<Int4Quantizer>(format, encoded, raw);
  return Decode<E4m3Quantizer>(format, encoded, raw);
}

}  // namespace kvtier::kernels
