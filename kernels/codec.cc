#include "kernels/codec.h"

#include <cstring>
#include <initializer_list>

#include "kernels/codec_header.h"
#include "kernels/pack_plane.h"
#include "kernels/quantize_plane.h"

namespace kvtier::kernels {
namespace {

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

// Returns what the source is. `bytes` is the encoding's size, or 0 if the source is no encoding
// that the launch takes.
CodecOutcome Recognise(Codec codec, const KvShape& shape, const CodecBlock& block) {
  if (block.destination_bytes < RawBytes(shape)) return {};
  for (const Codec is : {Codec::kRaw, codec}) {
    if (Is(is, shape, block)) return {.bytes = EncodedBytes(is, shape), .codec = is};
  }
  return {};
}

CodecOutcome DecodeBlock(Codec codec, const KvShape& shape, const CodecBlock& block) {
  const std::byte* const content = block.source + kEncodedHeaderBytes;
  if (codec == Codec::kRaw) {
    std::memcpy(block.destination, content, RawBytes(shape));
  } else if (!DecodePlanes(codec, shape, content, block.destination)) {
    return {};
  }
  return {.bytes = RawBytes(shape), .codec = codec};
}

}  // namespace

int EncodeOnHost(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    const CodecBlock& block = launch.blocks[i];
    launch.outcomes[i] = EncodeBlock(launch.codec, launch.shape, block);
  }
  return 0;
}

int DecodeOnHost(const CodecLaunch& launch) {
  if (!IsValid(launch)) return kInvalidLaunch;
  for (uint32_t i = 0; i < launch.count; ++i) {
    const CodecBlock& block = launch.blocks[i];
    const CodecOutcome is = Recognise(launch.codec, launch.shape, block);
    launch.outcomes[i] =
        is.bytes == 0 ? CodecOutcome{} : DecodeBlock(is.codec, launch.shape, block);
  }
  return 0;
}

}  // namespace kvtier::kernels
