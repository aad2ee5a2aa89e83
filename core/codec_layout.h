// The layout of a block before and after encoding: shapes, sizes, where scales are.
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
//   scales   = step:bf16 *            one a group, which is:
//              kFp8E4m3                a row, that is a token and head
//              kInt8                   K: a channel, all tokens of the block; V: a row
//              A single axis is as K.
//   codes    = in the order of the elements, 8 bits each; an element is about code * step
//   bases    = the largest exponent field of each row, u8
//   signs    = sign and mantissa of each element, u8
//   deltas   = 4 bits an element; of each 16 elements, byte j has element j low and element j + 8
//              high: base minus exponent if below 14; 14: the exponent is 0; 15: the exponent is
//              the next of the escapes
//   escapes  = count:u32 exponent:u8 *      in the order of the elements
//
// Relative errors ||x - y|| / ||x|| of a block of Gaussian values, without outliers or with every
// 32nd channel of K 30 times larger. The bounds hold for the block, for its V alone and for its
// other channels alone:
//   kFp8E4m3 <= 0.03 (mean 0.026)   kInt8 <= 0.008 (0.006)
// They hold for up to 256 tokens and a head_dim of 256, or 576 with a single axis (longer groups of
// kInt8 err slightly more). The smallest block that they hold for has, without outliers, 2 layers
// of 16 tokens and 2 heads of 64. With outliers it has this many groups in outlier channels, which
// weigh 900 times as much as others, so that with fewer groups the error scatters:
//   kFp8E4m3 32 rows   kInt8 8, above 64 tokens 32
// Measured outside of these limits: kInt8 with 8 groups of 256 tokens 0.0082. With every 32nd
// channel of V 30 times larger, too: for V alone kFp8E4m3 0.017, kInt8 0.021; for all other
// channels, which share steps with these: 0.027 and 0.08.
//
// Kernels include this header, too, so it includes no header of kvtier or of Abseil.
#ifndef KVTIER_CORE_CODEC_LAYOUT_H_
#define KVTIER_CORE_CODEC_LAYOUT_H_

#include <cstdint>

namespace kvtier {

// The numbers are part of the format; 3 stands for no codec.
enum class Codec : uint32_t {
  kRaw = 0,
  kFp8E4m3 = 1,
  kInt8 = 2,
  kPackedExponents = 4,  // Lossless.
};

constexpr bool IsKnown(Codec codec) {
  return codec == Codec::kRaw || codec == Codec::kFp8E4m3 || codec == Codec::kInt8 ||
         codec == Codec::kPackedExponents;
}

struct KvShape {
  uint32_t layers = 0;    // 1..4096.
  uint32_t axes = 2;      // 2: K and V; 1: one latent axis (MLA).
  uint32_t tokens = 0;    // Tokens of a block; 1..65536.
  uint32_t kv_heads = 0;  // 1..4096.
  uint32_t head_dim = 0;  // 16..65536, a multiple of 16.
};

inline constexpr uint64_t kEncodedHeaderBytes = 64;
inline constexpr uint64_t kMaxRawBytes = uint64_t{64} << 20;  // Maximum size of a block.
// Number of elements that are encoded together; head_dim is a multiple of it.
inline constexpr uint32_t kCodecTile = 16;

constexpr uint64_t RoundUpTo16(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

constexpr uint64_t Planes(const KvShape& shape) { return uint64_t{shape.layers} * shape.axes; }
constexpr uint64_t Rows(const KvShape& shape) { return uint64_t{shape.tokens} * shape.kv_heads; }
constexpr uint64_t Channels(const KvShape& shape) {
  return uint64_t{shape.kv_heads} * shape.head_dim;
}
constexpr uint64_t PlaneElements(const KvShape& shape) { return Rows(shape) * shape.head_dim; }
constexpr uint64_t RawPlaneBytes(const KvShape& shape) {
  return PlaneElements(shape) * sizeof(uint16_t);
}
constexpr uint64_t RawBytes(const KvShape& shape) { return Planes(shape) * RawPlaneBytes(shape); }

// Returns whether every field is in its range and the raw block has at most kMaxRawBytes.
constexpr bool IsEncodable(const KvShape& shape) {
  const bool in_range = shape.layers >= 1 && shape.layers <= 4096 &&              //
                        shape.axes >= 1 && shape.axes <= 2 &&                     //
                        shape.tokens >= 1 && shape.tokens <= 65536 &&             //
                        shape.kv_heads >= 1 && shape.kv_heads <= 4096 &&          //
                        shape.head_dim >= kCodecTile && shape.head_dim <= 65536;  //
  return in_range && shape.head_dim % kCodecTile == 0 && RawBytes(shape) <= kMaxRawBytes;
}

// Returns whether all tokens of a channel share a step; otherwise the elements of a row do.
// REQUIRES: the codec quantises; axis < shape.axes. Axis 0 is K, or the only one.
constexpr bool StepsByChannel(Codec codec, uint32_t axis) {
  return codec == Codec::kInt8 && axis == 0;
}

constexpr uint64_t ScaleBytes(Codec codec, const KvShape& shape, uint32_t axis) {
  const uint64_t groups = StepsByChannel(codec, axis) ? Channels(shape) : Rows(shape);
  return RoundUpTo16(groups * sizeof(uint16_t));
}

// PackedPlane says where the parts of a plane of kPackedExponents begin. Escapes have room for 1/64
// of the elements. Gaussian values use a hundredth of that room, a tenth if every 32nd channel is
// 30 times larger, and a third if it is 100 times larger.
struct PackedPlane {
  uint64_t signs = 0;
  uint64_t deltas = 0;
  uint64_t escapes = 0;
  uint64_t bytes = 0;

  constexpr uint32_t most_escapes() const {
    return static_cast<uint32_t>(bytes - escapes - sizeof(uint32_t));
  }
};

constexpr PackedPlane PackedPlaneOf(const KvShape& shape) {
  const uint64_t elements = PlaneElements(shape);
  PackedPlane plane;
  plane.signs = RoundUpTo16(Rows(shape));
  plane.deltas = plane.signs + elements;
  plane.escapes = RoundUpTo16(plane.deltas + elements / 2);
  plane.bytes = plane.escapes + RoundUpTo16(sizeof(uint32_t) + elements / 64);
  return plane;
}

// Returns the bytes of one encoded plane.
constexpr uint64_t PlaneBytes(Codec codec, const KvShape& shape, uint32_t axis) {
  if (codec == Codec::kRaw) return RawPlaneBytes(shape);
  if (codec == Codec::kPackedExponents) return PackedPlaneOf(shape).bytes;
  return ScaleBytes(codec, shape, axis) + PlaneElements(shape);
}

// Returns the bytes of every encoding with this codec and shape. REQUIRES: IsEncodable(shape).
constexpr uint64_t EncodedBytes(Codec codec, const KvShape& shape) {
  uint64_t layer = 0;
  for (uint32_t axis = 0; axis < shape.axes; ++axis) layer += PlaneBytes(codec, shape, axis);
  return kEncodedHeaderBytes + shape.layers * layer;
}

// Returns the size of the largest encoding: that of a block which has to stay raw.
constexpr uint64_t MaxEncodedBytes(const KvShape& shape) {
  return EncodedBytes(Codec::kRaw, shape);
}

}  // namespace kvtier

#endif  // KVTIER_CORE_CODEC_LAYOUT_H_
