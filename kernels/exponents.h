// Holds the per-element half of kPackedExponents: which bits of a bf16 go to the signs and which to
// the deltas. Pure; host and device forms share it.
//
// The exponents of a row of keys or values lie within a few powers of two below the largest: 8 bits
// become 4, and a block shrinks to three quarters.
#ifndef KVTIER_KERNELS_EXPONENTS_H_
#define KVTIER_KERNELS_EXPONENTS_H_

#include <cstdint>

#include "kernels/launch.h"

namespace kvtier::kernels {

// Delta of elements whose exponent field is 0, as zeros are common.
inline constexpr uint8_t kDeltaOfZero = 14;
inline constexpr uint8_t kDeltaEscape = 15;
inline constexpr uint16_t kExponentMask = 0x7f80;

KVTIER_HOST_DEVICE inline uint8_t ExponentOf(uint16_t value) {
  return static_cast<uint8_t>(value >> 7);
}
KVTIER_HOST_DEVICE inline uint8_t SignMantissaOf(uint16_t value) {
  return static_cast<uint8_t>((value >> 8 & 0x80) | (value & 0x7f));
}
KVTIER_HOST_DEVICE inline uint16_t Bf16Of(uint8_t sign_mantissa, uint8_t exponent) {
  return static_cast<uint16_t>((sign_mantissa & 0x80) << 8 | exponent << 7 |
                               (sign_mantissa & 0x7f));
}

// Returns the delta of an exponent, or kDeltaEscape. REQUIRES: base >= exponent.
KVTIER_HOST_DEVICE inline uint8_t DeltaOf(uint8_t base, uint8_t exponent) {
  const auto below = static_cast<uint8_t>(base - exponent);
  const uint8_t delta = below < kDeltaOfZero ? below : kDeltaEscape;
  return exponent == 0 ? kDeltaOfZero : delta;
}
// Returns the exponent of a delta that is not kDeltaEscape.
KVTIER_HOST_DEVICE inline uint8_t ExponentAt(uint8_t base, uint8_t delta) {
  return delta == kDeltaOfZero ? uint8_t{0} : static_cast<uint8_t>(base - delta);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_EXPONENTS_H_
