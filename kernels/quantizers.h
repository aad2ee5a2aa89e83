// Holds the per-element half of the quantising codecs: from the extreme of a group to its step,
// from element and step to code, and back. Pure; host and device forms share it, so their encodings
// have the same bits.
#ifndef KVTIER_KERNELS_QUANTIZERS_H_
#define KVTIER_KERNELS_QUANTIZERS_H_

#include <cstdint>

#include "kernels/float_formats.h"
#include "kernels/launch.h"

namespace kvtier::kernels {

// Returns a bf16 without its sign; such numbers order as unsigned integers do.
KVTIER_HOST_DEVICE inline uint16_t MagnitudeOf(uint16_t value) {
  return static_cast<uint16_t>(value & 0x7fff);
}
// First of the magnitudes that are infinities and NaNs.
inline constexpr uint16_t kFirstNotFinite = 0x7f80;

// Rounds to the nearest integer, ties to even. REQUIRES: |value| < 2^22.
KVTIER_HOST_DEVICE inline int32_t Nearest(float value) {
  constexpr float kLastPlaceIsOne = 12582912.0F;  // 1.5 * 2^23.
  return BitsOf(value + kLastPlaceIsOne) - BitsOf(kLastPlaceIsOne);
}

// A quantizer has
//   kLargest             the largest code, as a number of steps
//   Encode(ratio)        element / step to code
//   Decode(code)         code to element / step
// Encoding divides by the step and does not multiply by the step's inverse, because the smallest
// subnormal step has an infinite inverse.
struct E4m3Quantizer {
  static constexpr float kLargest = kE4m3LargestValue;
  KVTIER_HOST_DEVICE static uint8_t Encode(float ratio) { return E4m3FromFloat(ratio); }
  KVTIER_HOST_DEVICE static float Decode(uint8_t code) { return FloatFromE4m3(code); }
};

// Has codes -127..127.
struct Int8Quantizer {
  static constexpr float kLargest = 127.0F;
  KVTIER_HOST_DEVICE static uint8_t Encode(float ratio) {
    return static_cast<uint8_t>(Nearest(ratio));
  }
  KVTIER_HOST_DEVICE static float Decode(uint8_t code) {
    return static_cast<float>(static_cast<int8_t>(code));
  }
};

// Returns the step to store for a group, from its largest magnitude, which is finite; 1 if all
// elements are zero.
template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint16_t StepOf(uint16_t largest) {
  if (largest == 0) return kBf16One;
  return Bf16AwayFromZero(FloatFromBf16(largest) / Quantizer::kLargest);
}

template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint8_t CodeOf(uint16_t element, float step) {
  return Quantizer::Encode(FloatFromBf16(element) / step);
}

// Returns the element of a code. It is finite for every code but E4M3's NaN, which no encoder
// writes.
template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint16_t ElementOf(uint8_t code, float step) {
  return Bf16FromFloat(Quantizer::Decode(code) * step);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_QUANTIZERS_H_
