// element / step for device forms. A division is some ten instructions, twice what the
// rest of an encoder takes; the reciprocal of a step that many elements share makes it
// three.
//
// The codes are those of the division. Both numbers have 8 significant bits, so a
// quotient that is no tie between two codes is at least 2^-18 of itself away from one,
// far more than either way errs; and a tie is so short a number that the correction
// below gives it exactly. That needs steps whose products do not underflow: kQuickStep.
#ifndef KVTIER_KERNELS_STEP_RATIO_CUH_
#define KVTIER_KERNELS_STEP_RATIO_CUH_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/float_formats.h"

namespace kvtier::kernels {

// bf16 magnitudes from here on are divided by quickly: 2^-100.
inline constexpr uint16_t kQuickStep = 27 << 7;

__device__ inline bool IsQuickStep(uint16_t step) { return (step & 0x7fff) >= kQuickStep; }

__device__ inline float InverseOf(uint16_t step) { return __frcp_rn(FloatFromBf16(step)); }

// REQUIRES: IsQuickStep(step), inverse == InverseOf(step).
__device__ inline float QuickRatio(uint16_t element, uint16_t step, float inverse) {
  const float value = FloatFromBf16(element);
  const float near = __fmul_rn(value, inverse);
  const float rest = __fmaf_rn(-near, FloatFromBf16(step), value);
  // -0 would lose its sign.
  return near == 0.0F ? near : __fmaf_rn(rest, inverse, near);
}

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_STEP_RATIO_CUH_
