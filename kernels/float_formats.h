// Converts between fp32, bf16 and FP8 E4M3, in integer arithmetic that the host vectorises and the
// device repeats bit for bit. It uses no table, no branch, and no product next to a sum, which a
// compiler might fuse and so round differently.
//
// Conversions to a narrower format round to nearest, ties to even, and saturate: values that are
// too large, infinity included, become the largest finite value. NaN stays NaN and loses its sign
// and payload.
#ifndef KVTIER_KERNELS_FLOAT_FORMATS_H_
#define KVTIER_KERNELS_FLOAT_FORMATS_H_

#include <bit>
#include <cstdint>

#include "kernels/launch.h"

namespace kvtier::kernels {

inline constexpr uint16_t kBf16One = 0x3f80;
inline constexpr uint16_t kBf16Largest = 0x7f7f;
inline constexpr uint16_t kBf16NaN = 0x7fff;
inline constexpr uint8_t kE4m3Largest = 0x7e;  // 448.
inline constexpr uint8_t kE4m3NaN = 0x7f;      // E4M3 has no infinity.
inline constexpr float kE4m3LargestValue = 448.0F;

// Returns the bits as a signed number, because SSE2 cannot compare unsigned 32-bit lanes.
KVTIER_HOST_DEVICE inline int32_t BitsOf(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_int(value);
#else
  return std::bit_cast<int32_t>(value);
#endif
}

KVTIER_HOST_DEVICE inline float FloatOf(int32_t bits) {
#ifdef __CUDA_ARCH__
  return __int_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

// Converts exactly.
KVTIER_HOST_DEVICE inline float FloatFromBf16(uint16_t value) {
  return FloatOf(static_cast<int32_t>(uint32_t{value} << 16));
}

KVTIER_HOST_DEVICE inline uint16_t Bf16FromFloat(float value) {
  const int32_t bits = BitsOf(value);
  const int32_t magnitude = bits & 0x7fffffff;
  const int32_t sign = static_cast<int32_t>((static_cast<uint32_t>(bits) >> 16) & 0x8000);
  // Adds half of the last place that is kept, less one unit where that place is even. The sum
  // cannot overflow for numbers but may for NaN, so it is unsigned.
  const auto sum = static_cast<uint32_t>(magnitude) + 0x7fff + ((magnitude >> 16) & 1);
  const auto rounded = static_cast<int32_t>(sum >> 16);
  const int32_t number = sign | (rounded < kBf16Largest ? rounded : kBf16Largest);
  return static_cast<uint16_t>(magnitude > 0x7f800000 ? kBf16NaN : number);
}

// Returns the nearest bf16 that is not closer to zero: with a step rounded in this way no code
// overflows. Saturates. REQUIRES: not NaN.
KVTIER_HOST_DEVICE inline uint16_t Bf16AwayFromZero(float value) {
  const auto bits = static_cast<uint32_t>(BitsOf(value));
  const uint32_t rounded = ((bits & 0x7fffffff) + 0xffff) >> 16;
  const uint32_t finite = rounded < kBf16Largest ? rounded : kBf16Largest;
  return static_cast<uint16_t>(((bits >> 16) & 0x8000) | finite);
}

KVTIER_HOST_DEVICE inline uint8_t E4m3FromFloat(float value) {
  const int32_t bits = BitsOf(value);
  const int32_t magnitude = bits & 0x7fffffff;
  // 3 of 23 mantissa bits stay; the exponent's bias changes from 127 to 7.
  const auto sum = static_cast<uint32_t>(magnitude) + 0x7ffff + ((magnitude >> 20) & 1);
  const int32_t rounded = static_cast<int32_t>(sum >> 20) - (120 << 3);
  const int32_t normal = rounded < kE4m3Largest ? rounded : kE4m3Largest;
  // Below 2^-6 codes are multiples of 2^-9, the last place of numbers around 2^14: adding such a
  // number makes the hardware round.
  const int32_t subnormal = BitsOf(FloatOf(magnitude) + 16384.0F) - BitsOf(16384.0F);
  const int32_t number = magnitude < BitsOf(0x1p-6F) ? subnormal : normal;
  const int32_t code = magnitude > 0x7f800000 ? kE4m3NaN : number | ((bits >> 24) & 0x80);
  return static_cast<uint8_t>(code);
}

// Converts exactly.
KVTIER_HOST_DEVICE inline float FloatFromE4m3(uint8_t code) {
  const int32_t magnitude = code & 0x7f;
  const int32_t normal = (magnitude << 20) + (120 << 23);
  const int32_t subnormal = BitsOf(static_cast<float>(magnitude) * 0x1p-9F);
  const int32_t number = magnitude < 8 ? subnormal : normal;
  const int32_t bits = magnitude == kE4m3NaN ? 0x7fc00000 : number;
  return FloatOf(static_cast<int32_t>(static_cast<uint32_t>(bits) | (uint32_t{code} & 0x80) << 24));
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_FLOAT_FORMATS_H_
