// The per-element half of the codecs that quantise: from the extreme of a group to
// its step, from element and step to code, and back. Pure; host and device forms
// share it, so their encodings are the same bits.
#ifndef KVTIER_KERNELS_QUANTIZERS_H_
#define KVTIER_KERNELS_QUANTIZERS_H_

#include <cstdint>

#include "kernels/float_formats.h"
#include "kernels/launch.h"

namespace kvtier::kernels {

// Orders bf16 by magnitude: the largest key of a group belongs to its extreme.
KVTIER_HOST_DEVICE inline uint16_t MagnitudeKey(uint16_t value) {
  return static_cast<uint16_t>(value << 1 | value >> 15);
}
KVTIER_HOST_DEVICE inline uint16_t OfMagnitudeKey(uint16_t key) {
  return static_cast<uint16_t>(key >> 1 | key << 15);
}
// Keys from here on are infinities and NaNs.
inline constexpr uint16_t kFirstNotFiniteKey = 0xff00;

// To the nearest integer, ties to even. REQUIRES: |value| < 2^22.
KVTIER_HOST_DEVICE inline int32_t Nearest(float value) {
  constexpr float kLastPlaceIsOne = 12582912.0F;  // 1.5 * 2^23
  return BitsOf(value + kLastPlaceIsOne) - BitsOf(kLastPlaceIsOne);
}

// A quantizer has
//   kBits                bits of a code
//   Step(extreme)        the group's step, from its finite extreme that is not 0
//   Encode(ratio)        element / step to code
//   Decode(code)         code to element / step
// A division, not a product with the inverse: steps go down to the smallest
// subnormal, whose inverse is infinite.
struct E4m3Quantizer {
  static constexpr uint32_t kBits = 8;
  KVTIER_HOST_DEVICE static uint16_t Step(float extreme) {
    return Bf16AwayFromZero(FloatOf(BitsOf(extreme) & 0x7fffffff) / kE4m3LargestValue);
  }
  KVTIER_HOST_DEVICE static uint8_t Encode(float ratio) { return E4m3FromFloat(ratio); }
  KVTIER_HOST_DEVICE static float Decode(uint8_t code) { return FloatFromE4m3(code); }
};

// Codes -127..127.
struct Int8Quantizer {
  static constexpr uint32_t kBits = 8;
  KVTIER_HOST_DEVICE static uint16_t Step(float extreme) {
    return Bf16AwayFromZero(FloatOf(BitsOf(extreme) & 0x7fffffff) / 127.0F);
  }
  KVTIER_HOST_DEVICE static uint8_t Encode(float ratio) {
    return static_cast<uint8_t>(Nearest(ratio));
  }
  KVTIER_HOST_DEVICE static float Decode(uint8_t code) {
    return static_cast<float>(static_cast<int8_t>(code));
  }
};

// Codes -8..7. The step has the sign that puts the extreme on -8, as in the Q4_0
// format of llama.cpp: 16 codes are used instead of 15, and the extreme is exact. An
// element near +8 becomes 7.
struct Int4Quantizer {
  static constexpr uint32_t kBits = 4;
  KVTIER_HOST_DEVICE static uint16_t Step(float extreme) {
    return Bf16AwayFromZero(extreme / -8.0F);
  }
  KVTIER_HOST_DEVICE static uint8_t Encode(float ratio) {
    const int32_t code = Nearest(ratio);
    return static_cast<uint8_t>((code < 7 ? code : 7) & 0xf);
  }
  KVTIER_HOST_DEVICE static float Decode(uint8_t code) {
    return static_cast<float>((code ^ 8) - 8);
  }
};

// The step that is stored, from the largest key of the group: 1 where all is zero.
template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint16_t StepOf(uint16_t largest_key) {
  if (largest_key <= 1) return kBf16One;
  return Quantizer::Step(FloatFromBf16(OfMagnitudeKey(largest_key)));
}

template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint8_t CodeOf(uint16_t element, float step) {
  return Quantizer::Encode(FloatFromBf16(element) / step);
}

// Finite for every code but E4M3's NaN, which no encoder writes.
template <typename Quantizer>
KVTIER_HOST_DEVICE inline uint16_t ElementOf(uint8_t code, float step) {
  return Bf16FromFloat(Quantizer::Decode(code) * step);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_QUANTIZERS_H_
