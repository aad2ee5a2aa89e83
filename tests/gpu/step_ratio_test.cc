// Device forms divide by a shared reciprocal. Here on every pair that matters, against
// the division of the references.
#include "kernels/step_ratio.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "kernels/quantizers.h"
#include "tests/testing/patience.h"

namespace kvtier::kernels {
namespace {

// All elements whose ratio to `step` a quantizer meets.
template <typename Quantizer>
uint64_t Differences(uint16_t step, float largest_ratio) {
  const float divisor = FloatFromBf16(step);
  const float inverse = InverseOf(step);
  uint64_t differences = 0;
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto element = static_cast<uint16_t>(bits);
    const float ratio = FloatFromBf16(element) / divisor;
    if (!(std::abs(ratio) <= largest_ratio)) continue;
    const uint8_t quick = Quantizer::Encode(QuickRatio(element, step, inverse));
    differences += quick == CodeOf<Quantizer>(element, divisor) ? 0 : 1;
  }
  return differences;
}

TEST(StepRatioTest, GivesTheCodesOfTheDivision) {
  // Every significand, around 1 and at both ends of the exponents.
  for (const uint32_t exponent : {uint32_t{kQuickStep} >> 7, 127U, 254U}) {
    for (uint32_t significand = 0; significand < 128; significand += testing::kSanitized ? 9 : 1) {
      const auto step = static_cast<uint16_t>(exponent << 7 | significand);
      ASSERT_TRUE(IsQuickStep(step));
      EXPECT_EQ(Differences<E4m3Quantizer>(step, 450.0F), 0U) << step;
      EXPECT_EQ(Differences<Int8Quantizer>(step, 128.0F), 0U) << step;
      EXPECT_EQ(Differences<Int4Quantizer>(step, 8.5F), 0U) << step;
      EXPECT_EQ(Differences<Int4Quantizer>(step | 0x8000, 8.5F), 0U) << step;
    }
  }
}

// Why there is a correction: 2.5 may come out below or above itself.
TEST(StepRatioTest, TheBareProductTiesWrongly) {
  uint64_t different = 0;
  for (uint16_t step = kBf16One; step < kBf16One + 128; ++step) {
    const float divisor = FloatFromBf16(step);
    for (uint32_t bits = kBf16One; bits < 0x42ffU; ++bits) {
      const float element = FloatFromBf16(static_cast<uint16_t>(bits));
      if (element / divisor > 127.0F) break;
      different += Nearest(element * InverseOf(step)) == Nearest(element / divisor) ? 0 : 1;
    }
  }
  EXPECT_GT(different, 0U);
}

TEST(StepRatioTest, StepsThatUnderflowAreLeftToTheDivision) {
  EXPECT_FALSE(IsQuickStep(0x0001));
  EXPECT_FALSE(IsQuickStep(0x8001));
  EXPECT_FALSE(IsQuickStep(kQuickStep - 1));
  EXPECT_TRUE(IsQuickStep(0xbf80));
}

}  // namespace
}  // namespace kvtier::kernels
