// Defines the first 64 bytes of an encoding (codec_layout.h has the fields).
#ifndef KVTIER_KERNELS_CODEC_HEADER_H_
#define KVTIER_KERNELS_CODEC_HEADER_H_

#include <cstdint>

#include "core/codec_layout.h"

namespace kvtier::kernels {

inline constexpr uint32_t kEncodedFormatVersion = 1;

struct alignas(16) EncodedHeader {
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

constexpr EncodedHeader HeaderOf(Codec codec, const KvShape& shape) {
  return {.magic = {'k', 'v', 't', 'c', 'o', 'd', 'e', 'c'},
          .version = kEncodedFormatVersion,
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

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_CODEC_HEADER_H_
