#include "kernels/quantize_plane.h"

#include <algorithm>
#include <cstring>

#include "kernels/quantizers.h"
#include "kernels/tile.h"

namespace kvtier::kernels {
namespace {

constexpr uint64_t kTileBytes = sizeof(Bf16Tile);

// Raises each magnitude of `largest` to that of its element, if that is larger.
void Raise(const Bf16Tile& elements, Bf16Tile& largest) {
  for (uint32_t i = 0; i < kCodecTile; ++i) {
    const uint16_t magnitude = MagnitudeOf(elements[i]);
    largest[i] = largest[i] < magnitude ? magnitude : largest[i];
  }
}

template <typename Quantizer>
void EncodeTile(const std::byte* raw, const FloatTile& steps, std::byte* codes) {
  const auto elements = Load<Bf16Tile>(raw);
  CodeTile tile;
  for (uint32_t i = 0; i < kCodecTile; ++i) tile[i] = CodeOf<Quantizer>(elements[i], steps[i]);
  Store(tile, codes);
}

template <typename Quantizer>
void DecodeTile(const std::byte* codes, const FloatTile& steps, std::byte* raw) {
  const auto tile = Load<CodeTile>(codes);
  Bf16Tile elements;
  for (uint32_t i = 0; i < kCodecTile; ++i) elements[i] = ElementOf<Quantizer>(tile[i], steps[i]);
  Store(elements, raw);
}

// Loads the steps of kCodecTile channels from their stored form.
FloatTile LoadSteps(const std::byte* scales) {
  const auto stored = Load<Bf16Tile>(scales);
  FloatTile steps;
  for (uint32_t i = 0; i < kCodecTile; ++i) steps[i] = FloatFromBf16(stored[i]);
  return steps;
}

// Loads one step for a whole tile.
FloatTile LoadStep(const std::byte* scale) {
  FloatTile steps;
  steps.fill(FloatFromBf16(Load<uint16_t>(scale)));
  return steps;
}

// Plane whose rows have a step each: `rows` rows of `tiles` tiles.
struct RowSteps {
  uint64_t rows = 0;
  uint64_t tiles = 0;
};

template <typename Quantizer>
bool EncodeRows(RowSteps plane, const std::byte* raw, std::byte* scales, std::byte* codes) {
  for (uint64_t row = 0; row < plane.rows; ++row) {
    Bf16Tile tile{};
    for (uint64_t i = 0; i < plane.tiles; ++i) Raise(Load<Bf16Tile>(raw + i * kTileBytes), tile);
    const uint16_t largest = *std::max_element(tile.begin(), tile.end());
    if (largest >= kFirstNotFinite) return false;
    Store(StepOf<Quantizer>(largest), scales);
    const FloatTile steps = LoadStep(scales);
    scales += sizeof(uint16_t);
    for (uint64_t i = 0; i < plane.tiles; ++i) {
      EncodeTile<Quantizer>(raw, steps, codes);
      raw += kTileBytes;
      codes += kCodecTile;
    }
  }
  return true;
}

template <typename Quantizer>
void DecodeRows(RowSteps plane, const std::byte* scales, const std::byte* codes, std::byte* raw) {
  for (uint64_t row = 0; row < plane.rows; ++row) {
    const FloatTile steps = LoadStep(scales);
    scales += sizeof(uint16_t);
    for (uint64_t i = 0; i < plane.tiles; ++i) {
      DecodeTile<Quantizer>(codes, steps, raw);
      raw += kTileBytes;
      codes += kCodecTile;
    }
  }
}

// Plane whose channels have a step each, kCodecTile channels side by side: a token has `tiles`
// tiles.
struct ChannelSteps {
  uint64_t tokens = 0;
  uint64_t tiles = 0;
};

template <typename Quantizer>
bool EncodeChannels(ChannelSteps plane, const std::byte* raw, std::byte* scales, std::byte* codes) {
  const uint64_t end = plane.tokens * plane.tiles;
  for (uint64_t channel = 0; channel < plane.tiles; ++channel) {
    Bf16Tile largest{};
    for (uint64_t tile = channel; tile < end; tile += plane.tiles) {
      Raise(Load<Bf16Tile>(raw + tile * kTileBytes), largest);
    }
    if (*std::max_element(largest.begin(), largest.end()) >= kFirstNotFinite) return false;
    for (uint16_t& step : largest) step = StepOf<Quantizer>(step);
    Store(largest, scales + channel * kTileBytes);
    const FloatTile steps = LoadSteps(scales + channel * kTileBytes);
    for (uint64_t tile = channel; tile < end; tile += plane.tiles) {
      EncodeTile<Quantizer>(raw + tile * kTileBytes, steps, codes + tile * kCodecTile);
    }
  }
  return true;
}

template <typename Quantizer>
void DecodeChannels(ChannelSteps plane, const std::byte* scales, const std::byte* codes,
                    std::byte* raw) {
  for (uint64_t token = 0; token < plane.tokens; ++token) {
    for (uint64_t channel = 0; channel < plane.tiles; ++channel) {
      DecodeTile<Quantizer>(codes, LoadSteps(scales + channel * kTileBytes), raw);
      raw += kTileBytes;
      codes += kCodecTile;
    }
  }
}

RowSteps RowStepsOf(const KvShape& shape) {
  return {.rows = Rows(shape), .tiles = shape.head_dim / kCodecTile};
}

ChannelSteps ChannelStepsOf(const KvShape& shape) {
  return {.tokens = shape.tokens, .tiles = Channels(shape) / kCodecTile};
}

template <typename Quantizer>
bool Encode(const PlaneFormat& format, const std::byte* raw, std::byte* encoded) {
  const KvShape& shape = format.shape;
  std::byte* const codes = encoded + ScaleBytes(format.codec, shape, format.axis);
  std::memset(codes - RoundUpTo16(1), 0, RoundUpTo16(1));  // The scales may end before this point.
  if (StepsByChannel(format.codec, format.axis)) {
    return EncodeChannels<Quantizer>(ChannelStepsOf(shape), raw, encoded, codes);
  }
  return EncodeRows<Quantizer>(RowStepsOf(shape), raw, encoded, codes);
}

template <typename Quantizer>
void Decode(const PlaneFormat& format, const std::byte* encoded, std::byte* raw) {
  const KvShape& shape = format.shape;
  const std::byte* const codes = encoded + ScaleBytes(format.codec, shape, format.axis);
  if (StepsByChannel(format.codec, format.axis)) {
    DecodeChannels<Quantizer>(ChannelStepsOf(shape), encoded, codes, raw);
  } else {
    DecodeRows<Quantizer>(RowStepsOf(shape), encoded, codes, raw);
  }
}

}  // namespace

bool QuantizePlane(const PlaneFormat& format, const std::byte* raw, std::byte* encoded) {
  if (format.codec == Codec::kInt8) return Encode<Int8Quantizer>(format, raw, encoded);
  return Encode<E4m3Quantizer>(format, raw, encoded);
}

void DequantizePlane(const PlaneFormat& format, const std::byte* encoded, std::byte* raw) {
  if (format.codec == Codec::kInt8) return Decode<Int8Quantizer>(format, encoded, raw);
  return Decode<E4m3Quantizer>(format, encoded, raw);
}

}  // namespace kvtier::kernels
