#include "kernels/codec.h"

#include <cstring>

#include "kernels/pack_plane.h"
#include "kernels/quantize_plane.h"

namespace kvtier::kernels {
namespace {

constexpr uint32_t kFormatVersion = 1;

struct EncodedHeader {
  char magic[8];
  uint32_t version;
  uint32_t codec;
  uint32_t layers;
  uint32_t axes;
  uint32_t tokens;
  uint32_t kv_heads;
  uint32_t head_dim;
  uint32_t zero;
  uint64_t bytes;
  uint64_t zeros[2];
};
static_assert(sizeof(EncodedHeader) == kEncodedHeaderBytes);

EncodedHeader HeaderOf(Codec codec, const KvShape& shape) {
  return {.magic = {'k', 'v', 't', 'c', 'o', 'd', 'e', 'c'},
          .version = kFormatVersion,
          .codec = static_cast<uint32_t>(codec),
          .layers = shape.layers,
          .axes = shape.axes,
          .tokens = shape.tokens,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .zero = 0,
          .bytes = EncodedBytes(codec, shape),
          .zeros = {}};
}

bool IsValid(const CodecLaunch& launch) {
  if (launch.codec > Codec::kPackedExponents || !IsEncodable(launch.shape)) return false;
  if (launch.thread_blocks == 0) return false;
  return launch.count == 0 || (launch.blocks != nullptr && launch.outcomes != nullptr);
}

bool EncodePlanes(Codec codec, const KvShape& shape, const std::byte* raw, std::byte* encoded) {
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (uint32_t axis = 0; axis < shape.axes; ++axis) {
      const bool done =
          codec == Codec::kPackedExponents
              ? PackPlane(shape, raw, encoded)
              : QuantizePlane({.codec = codec, .shape = shape, .axis = axis}, raw, encoded);
      if (!done) return false;
      raw += RawPlaneBytes(shape);
      encoded += PlaneBytes(codec, shape, axis);
    }
  }
  return true;
}

bool DecodePlanes(Codec codec, const KvShape& shape, const std::byte* encoded, std::byte* raw) {
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (uint32_t axis = 0; axis < shape.axes; ++axis) {
      if (codec != Codec::kPackedExponents) {
        DequantizePlane({.codec = codec, .shape = shape, .axis = axis}, encoded, raw);
      } else if (!UnpackPlane(shape, encoded, raw)) {
        return false;
      }
      raw += RawPlaneBytes(shape);
      encoded += PlaneBytes(codec, shape, axis);
    }
  }
  return true;
}

CodecOutcome EncodeBlock(Codec codec, const KvShape& shape, const CodecBlock& block) {
  if (block.source_bytes < RawBytes(shape)) return {};
  if (block.destination_bytes < MaxEncodedBytes(shape)) return {};
  std::byte* const content = block.destination + kEncodedHeaderBytes;
  const bool smaller = EncodedBytes(codec, shape) < EncodedBytes(Codec::kRaw, shape);
  if (!smaller || !EncodePlanes(codec, shape, block.source, content)) {
    codec = Codec::kRaw;
    std::memcpy(content, block.source, RawBytes(shape));
  }
  const EncodedHeader header = HeaderOf(codec, shape);
  std::memcpy(block.destination, &header, sizeof(header));
  return {.bytes = header.bytes, .codec = codec};
}

bool Is(Codec codec, const KvShape& shape, const CodecBlock& block) {
  if (block.source_bytes < EncodedBytes(codec, shape)) return false;
  const EncodedHeader header = HeaderOf(codec, shape);
  return std::memcmp(block.source, &header, sizeof(header)) == 0;
}

CodecOutcome DecodeBlock(Codec codec, const KvShape& shape, const CodecBlock& block) {
  if (block.destination_bytes < RawBytes(shape)) return {};
  const std::byte* const content = block.source + kEncodedHeaderBytes;
  if (Is(Codec::kRaw, shape, block)) {
    std::memcpy(block.destination, content, RawBytes(shape));
    return {.bytes = RawBytes(shape), .codec = Codec::kRaw};
  }
  if (codec == Codec::kRaw || !Is(codec, shape, block)) return {};
  if (!DecodePlanes(codec, shape, content, block.destination)) return {};
  return {.bytes = RawBytes(shape), .codec = codec};
}

}  // namespace

int EncodeOnHost(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    launch.outcomes[i] = EncodeBlock(launch.codec, launch.shape, launch.blocks[i]);
  }
  return 0;
}

int DecodeOnHost(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    launch.outcomes[i] = DecodeBlock(launch.codec, launch.shape, launch.blocks[i]);
  }
  return 0;
}

}  // namespace kvtier::kernels
