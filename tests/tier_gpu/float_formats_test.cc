#include "kernels/float_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tests/testing/test_seed.h"
#ifdef KVTIER_HAVE_CUDA
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#endif

namespace kvtier::kernels {
namespace {

constexpr uint32_t kAllBf16 = 1 << 16;
constexpr int kCases = 1'000'000;

// Decodes by the definition of the format: 4 exponent bits with bias 7, 3 mantissa bits, no
// infinity.
double E4m3ByDefinition(uint8_t code) {
  const int exponent = code >> 3 & 0xf;
  const int mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 7 - 3);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

// Returns the code with the nearest value, by comparing with all codes; of two, the even one.
uint8_t NearestE4m3(float value) {
  static const std::vector<double> values = [] {
    std::vector<double> all;
    for (uint8_t code = 0; code < kE4m3NaN; ++code) all.push_back(E4m3ByDefinition(code));
    return all;
  }();
  if (std::isnan(value)) return kE4m3NaN;
  const double magnitude = std::abs(static_cast<double>(value));
  uint8_t best = 0;
  for (uint8_t code = 1; code < kE4m3NaN; ++code) {
    const double distance = std::abs(values[code] - magnitude);
    const double least = std::abs(values[best] - magnitude);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  if (std::isinf(value)) best = kE4m3Largest;
  return std::signbit(value) ? best | 0x80 : best;
}

// Returns the nearer of the two bf16 around the value, in exact arithmetic.
uint16_t NearestBf16(float value) {
  if (std::isnan(value)) return kBf16NaN;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::abs(static_cast<double>(value));
  const auto below = static_cast<uint16_t>(BitsOf(std::abs(value)) >> 16);
  if (below >= kBf16Largest) return sign | kBf16Largest;
  const auto above = static_cast<uint16_t>(below + 1);
  const double under = magnitude - FloatFromBf16(below);
  const double over = FloatFromBf16(above) - magnitude;
  const bool up = over < under || (over == under && above % 2 == 0);
  return sign | (up ? above : below);
}

// Returns random bits, and numbers near difficult ones: the middle between two codes, and its
// neighbours.
std::vector<float> HardFloats() {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<float> floats(kCases);
  for (float& value : floats) value = FloatOf(static_cast<int32_t>(random()));
  std::uniform_real_distribution<float> exponent(-12, 10);
  for (int i = 0; i < kCases; ++i) {
    floats.push_back(std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0F : -1.0F));
  }
  for (uint8_t code = 0; code < kE4m3Largest; ++code) {
    const auto middle =
        static_cast<float>((E4m3ByDefinition(code) + E4m3ByDefinition(code + 1)) / 2);
    for (const float value : {std::nextafter(middle, 0.0F), middle, std::nextafter(middle, 1e9F)}) {
      floats.insert(floats.end(), {value, -value});
    }
  }
  for (const float value : {448.0F, 449.0F, 463.9F, 464.0F, 464.1F, 480.0F, 1e30F}) {
    floats.insert(floats.end(), {value, -value});
  }
  return floats;
}

TEST(FloatFormatsTest, EveryBf16SurvivesFp32) {
  for (uint32_t bits = 0; bits < kAllBf16; ++bits) {
    const auto value = static_cast<uint16_t>(bits);
    const float wide = FloatFromBf16(value);
    uint16_t expected = value;
    if (std::isnan(wide)) expected = kBf16NaN;
    if (std::isinf(wide)) expected = (value & 0x8000) | kBf16Largest;
    ASSERT_EQ(Bf16FromFloat(wide), expected) << std::hex << bits;
  }
}

TEST(FloatFormatsTest, FloatsRoundToTheNearestBf16) {
  for (const float value : HardFloats()) {
    ASSERT_EQ(Bf16FromFloat(value), NearestBf16(value)) << std::hexfloat << value;
  }
}

TEST(FloatFormatsTest, AwayFromZeroIsTheFirstBf16ThatIsNotNearerToZero) {
  for (const float value : HardFloats()) {
    if (std::isnan(value)) continue;
    const uint16_t away = Bf16AwayFromZero(value);
    ASSERT_EQ(std::signbit(FloatFromBf16(away)), std::signbit(value));
    const auto magnitude = static_cast<uint16_t>(away & 0x7fff);
    if (magnitude == kBf16Largest) continue;
    ASSERT_GE(FloatFromBf16(magnitude), std::abs(value)) << std::hexfloat << value;
    if (magnitude == 0) continue;
    ASSERT_LT(FloatFromBf16(magnitude - 1), std::abs(value)) << std::hexfloat << value;
  }
}

TEST(FloatFormatsTest, EveryE4m3CodeMeansWhatTheFormatSays) {
  for (int code = 0; code < 256; ++code) {
    const float value = FloatFromE4m3(static_cast<uint8_t>(code));
    const double expected = E4m3ByDefinition(static_cast<uint8_t>(code));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(value, expected) << code;
      EXPECT_EQ(std::signbit(value), std::signbit(expected)) << code;
      EXPECT_EQ(E4m3FromFloat(value), code);
    }
  }
}

TEST(FloatFormatsTest, EveryBf16RoundsToTheNearestE4m3) {
  for (uint32_t bits = 0; bits < kAllBf16; ++bits) {
    const float value = FloatFromBf16(static_cast<uint16_t>(bits));
    ASSERT_EQ(E4m3FromFloat(value), NearestE4m3(value)) << std::hex << bits;
  }
}

TEST(FloatFormatsTest, FloatsRoundToTheNearestE4m3) {
  for (const float value : HardFloats()) {
    ASSERT_EQ(E4m3FromFloat(value), NearestE4m3(value)) << std::hexfloat << value;
  }
}

#ifdef KVTIER_HAVE_CUDA

// Compares with CUDA's own conversions, in their host form.
TEST(FloatFormatsTest, E4m3IsCudas) {
  const auto expect_same = [](float value) {
    ASSERT_EQ(E4m3FromFloat(value), __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3))
        << std::hexfloat << value;
  };
  for (const float value : HardFloats()) expect_same(value);
  for (uint32_t bits = 0; bits < kAllBf16; ++bits) {
    expect_same(FloatFromBf16(static_cast<uint16_t>(bits)));
  }
}

TEST(FloatFormatsTest, Bf16IsCudasUpToTheLargest) {
  for (const float value : HardFloats()) {
    const uint16_t cudas = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    const bool infinite = (cudas & 0x7fff) == 0x7f80;
    const int expected = infinite ? (cudas & 0x8000) | kBf16Largest : cudas;
    ASSERT_EQ(Bf16FromFloat(value), expected) << std::hexfloat << value;
  }
}

#endif

}  // namespace
}  // namespace kvtier::kernels
