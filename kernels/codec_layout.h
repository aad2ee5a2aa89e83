// What a block looks like before and after encoding: shapes, sizes, where scales lie.
//
// A raw block is bf16, axes outermost first:
//   [layer][K, V][token][head][dim]     or, with one axis (MLA):     [layer][token][head][dim]
// A plane is one axis of one layer. Its token*head rows have head_dim elements; its
// channels are the head*dim elements of one token.
//
// Encoded, in little-endian order; every part is a multiple of 16 bytes, zero-filled:
//   encoding = header plane*          planes as in the raw block: a layer stays one run
//            | header raw             where the header says kRaw
//   header   = "kvtcodec" version:u32 (=1) codec:u32 layers:u32 axes:u32 tokens:u32 kv_heads:u32
//              head_dim:u32 zero:u32 bytes:u64 (of the encoding) zero:16
//   plane    = scales codes           of the codecs that quantise
//            | bases signs deltas escapes    of kPackedExponents
//   scales   = step:bf16 *            one a group, [token group][channel] or [row][dim group]:
//              kFp8E4m3                a row, that is a token and head
//              kInt8                   K: a channel, all tokens of the block; V: a row
//              kInt4                   K: 16 tokens of a channel, or what is left; V: 16 of a row
//              A single axis is as K.
//   codes    = in the order of the elements, 8 or 4 bits each; an element is about code * step.
//              Of each 16 elements at 4 bits, byte j has element j low and element j + 8 high.
//   bases    = the largest exponent field of each row, u8
//   signs    = sign and mantissa of each element, u8
//   deltas   = 4 bits an element, packed like codes: base minus exponent if below 14;
//              14: the exponent is 0; 15: the exponent is the next of the escapes
//   escapes  = count:u32 exponent:u8 *      in the order of the elements
//
// Relative error ||x - y|| / ||x|| of a block of Gaussian values, with or without every 32nd
// channel of K 30 times larger, of its V alone and of the other channels alone:
//   kFp8E4m3 <= 0.03 (mean 0.026)   kInt8 <= 0.008 (0.006)   kInt4 <= 0.08 (0.076)
// Stated for up to 256 tokens and head_dim 256, 576 of a single axis (longer groups of kInt8 err
// slowly more), from this size on: without outliers 2 layers of 16 tokens and 2 heads of 64; with
// them so many groups in outlier channels, which weigh 900 times as much as others, so that the
// error of a block with few of them scatters:
//   kFp8E4m3 32 rows   kInt8 8, above 64 tokens 32   kInt4 256 (Llama 3 8B has 1,024 in 16 tokens)
// Outside, measured: kInt4 of 180 groups 0.079, of 32 0.083, of 8 0.097; kInt8 of 8 groups of 256
// tokens 0.0082. With every 32nd channel of V 30 times larger, too, V alone: kFp8E4m3 0.017, kInt8
// 0.021, kInt4 0.095, and all other channels, which share its steps: 0.027, 0.08 and 0.37.
#ifndef KVTIER_KERNELS_CODEC_LAYOUT_H_
#define KVTIER_KERNELS_CODEC_LAYOUT_H_

#include <cstdint>

#include "kernels/launch.h"

namespace kvtier::kernels {

// The numbers are part of the format.
enum class Codec : uint32_t {
  kRaw = 0,
  kFp8E4m3 = 1,
  kInt8 = 2,
  kInt4 = 3,
  kPackedExponents = 4,  // Lossless.
};

struct KvShape {
  uint32_t layers = 0;    // 1..4096.
  uint32_t axes = 2;      // 2: K and V; 1: one latent axis (MLA).
  uint32_t tokens = 0;    // Of a block; 1..65536.
  uint32_t kv_heads = 0;  // 1..4096.
  uint32_t head_dim = 0;  // 16..65536, a multiple of 16.
};

inline constexpr uint64_t kEncodedHeaderBytes = 64;
inline constexpr uint64_t kMaxRawBytes = uint64_t{64} << 20;  // As large as a block may be.
// Elements that are worked on together. Every group of a row is a whole number of them.
inline constexpr uint32_t kTile = 16;
inline constexpr uint32_t kInt4Group = 16;

KVTIER_HOST_DEVICE constexpr uint64_t RoundUpTo16(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

KVTIER_HOST_DEVICE constexpr uint64_t Planes(const KvShape& shape) {
  return uint64_t{shape.layers} * shape.axes;
}
KVTIER_HOST_DEVICE constexpr uint64_t Rows(const KvShape& shape) {
  return uint64_t{shape.tokens} * shape.kv_heads;
}
KVTIER_HOST_DEVICE constexpr uint64_t Channels(const KvShape& shape) {
  return uint64_t{shape.kv_heads} * shape.head_dim;
}
KVTIER_HOST_DEVICE constexpr uint64_t PlaneElements(const KvShape& shape) {
  return Rows(shape) * shape.head_dim;
}
KVTIER_HOST_DEVICE constexpr uint64_t RawPlaneBytes(const KvShape& shape) {
  return PlaneElements(shape) * sizeof(uint16_t);
}
KVTIER_HOST_DEVICE constexpr uint64_t RawBytes(const KvShape& shape) {
  return Planes(shape) * RawPlaneBytes(shape);
}

// True when every field is in its range and the raw block has at most kMaxRawBytes.
KVTIER_HOST_DEVICE constexpr bool IsEncodable(const KvShape& shape) {
  const bool in_range = shape.layers >= 1 && shape.layers <= 4096 &&         //
                        shape.axes >= 1 && shape.axes <= 2 &&                //
                        shape.tokens >= 1 && shape.tokens <= 65536 &&        //
                        shape.kv_heads >= 1 && shape.kv_heads <= 4096 &&     //
                        shape.head_dim >= kTile && shape.head_dim <= 65536;  //
  return in_range && shape.head_dim % kTile == 0 && RawBytes(shape) <= kMaxRawBytes;
}

// Which elements of a plane share a step.
struct Grouping {
  bool along_tokens = false;  // Of one channel; otherwise along dim, of one row.
  uint32_t length = 0;        // Along dim it divides head_dim.
};

// REQUIRES: the codec quantises; axis < shape.axes. Axis 0 is K, or the only one.
KVTIER_HOST_DEVICE constexpr Grouping GroupingOf(Codec codec, const KvShape& shape, uint32_t axis) {
  if (codec == Codec::kFp8E4m3) return {.along_tokens = false, .length = shape.head_dim};
  const bool small = codec == Codec::kInt4;
  if (axis == 0) return {.along_tokens = true, .length = small ? kInt4Group : shape.tokens};
  return {.along_tokens = false, .length = small ? kInt4Group : shape.head_dim};
}

KVTIER_HOST_DEVICE constexpr uint64_t ScaleBytes(const KvShape& shape, Grouping grouping) {
  const uint64_t groups = grouping.along_tokens ? (shape.tokens + grouping.length - 1) /
                                                      grouping.length * Channels(shape)
                                                : PlaneElements(shape) / grouping.length;
  return RoundUpTo16(groups * sizeof(uint16_t));
}

// Where the parts of a plane of kPackedExponents begin. Escapes have room for 1/64 of
// the elements. Gaussian values use a hundredth of it, with every 32nd channel 30
// times larger a tenth, 100 times larger a third.
struct PackedPlane {
  uint64_t signs = 0;
  uint64_t deltas = 0;
  uint64_t escapes = 0;
  uint64_t bytes = 0;

  KVTIER_HOST_DEVICE constexpr uint32_t most_escapes() const {
    return static_cast<uint32_t>(bytes - escapes - sizeof(uint32_t));
  }
};

KVTIER_HOST_DEVICE constexpr PackedPlane PackedPlaneOf(const KvShape& shape) {
  const uint64_t elements = PlaneElements(shape);
  PackedPlane plane;
  plane.signs = RoundUpTo16(Rows(shape));
  plane.deltas = plane.signs + elements;
  plane.escapes = RoundUpTo16(plane.deltas + elements / 2);
  plane.bytes = plane.escapes + RoundUpTo16(sizeof(uint32_t) + elements / 64);
  return plane;
}

// Bytes of one encoded plane.
KVTIER_HOST_DEVICE constexpr uint64_t PlaneBytes(Codec codec, const KvShape& shape, uint32_t axis) {
  if (codec == Codec::kRaw) return RawPlaneBytes(shape);
  if (codec == Codec::kPackedExponents) return PackedPlaneOf(shape).bytes;
  const uint64_t codes = codec == Codec::kInt4 ? PlaneElements(shape) / 2 : PlaneElements(shape);
  return ScaleBytes(shape, GroupingOf(codec, shape, axis)) + RoundUpTo16(codes);
}

// Bytes of every encoding with this codec and shape. REQUIRES: IsEncodable(shape).
KVTIER_HOST_DEVICE constexpr uint64_t EncodedBytes(Codec codec, const KvShape& shape) {
  uint64_t layer = 0;
  for (uint32_t axis = 0; axis < shape.axes; ++axis) layer += PlaneBytes(codec, shape, axis);
  return kEncodedHeaderBytes + shape.layers * layer;
}

// Room for whatever Encode makes of a block: any of them may have to stay raw.
KVTIER_HOST_DEVICE constexpr uint64_t MaxEncodedBytes(const KvShape& shape) {
  return EncodedBytes(Codec::kRaw, shape);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_CODEC_LAYOUT_H_
