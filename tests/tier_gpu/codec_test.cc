// Tests encodings: sizes, which are bitwise exact, which blocks stay raw. codec_bounds_test.cc
// tests errors.
#include "kernels/codec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/float_formats.h"
#include "tests/testing/kv_values.h"
#include "tests/testing/test_seed.h"

namespace kvtier::kernels {
namespace {

using testing::DecodeValues;
using testing::Encoded;
using testing::EncodeValues;
using testing::GaussianValues;
using testing::kAllCodecs;
using testing::kSmallShape;
using testing::KvShapes;
using testing::KvValues;

// Block of Llama 3 8B: 2 MiB.
constexpr KvShape kLlama = {.layers = 32, .tokens = 16, .kv_heads = 8, .head_dim = 128};
constexpr float kOutlier = 30;

constexpr Codec kLossy[] = {Codec::kFp8E4m3, Codec::kInt8};
constexpr Codec kExact[] = {Codec::kRaw, Codec::kPackedExponents};

std::string Case(Codec codec, const KvShape& shape) {
  return (::testing::Message() << "codec " << static_cast<uint32_t>(codec) << ", " << shape)
      .GetString();
}

// Returns the shapes that the codec does not leave raw.
std::vector<KvShape> ShapesThatShrink(Codec codec) {
  std::vector<KvShape> shapes = KvShapes();
  std::erase_if(shapes, [codec](const KvShape& shape) {
    return codec != Codec::kRaw && EncodedBytes(codec, shape) >= MaxEncodedBytes(shape);
  });
  return shapes;
}

void ExpectBitwise(Codec codec, Codec stored, const KvShape& shape, const KvValues& values) {
  SCOPED_TRACE(Case(codec, shape));
  const Encoded encoded = EncodeValues(codec, shape, values);
  EXPECT_EQ(encoded.outcome.codec, stored);
  EXPECT_EQ(encoded.bytes.size(), EncodedBytes(stored, shape));
  EXPECT_EQ(DecodeValues(codec, shape, encoded.bytes), values);
}

TEST(CodecTest, ALlamaBlockTakesWhatTheFormatSays) {
  constexpr uint64_t kElements = uint64_t{1} << 20;
  constexpr uint64_t kRows = kElements / 128;
  static_assert(EncodedBytes(Codec::kRaw, kLlama) == 64 + 2 * kElements);
  static_assert(EncodedBytes(Codec::kFp8E4m3, kLlama) == 64 + kElements + 2 * kRows);
  // K has a step for 16 tokens of a channel; V has one for a row.
  static_assert(EncodedBytes(Codec::kInt8, kLlama) == 64 + kElements + kElements / 16 + kRows);
  // Escapes of a plane: a count and 1/64 of its 16,384 elements, rounded up to 16 bytes.
  static_assert(EncodedBytes(Codec::kPackedExponents, kLlama) ==
                64 + kElements + kElements / 2 + kRows + uint64_t{64} * 272);
  EXPECT_LT(EncodedBytes(Codec::kPackedExponents, kLlama), RawBytes(kLlama) * 77 / 100);
}

TEST(CodecTest, EncodingsAreAsLongAsTheirSizeSays) {
  for (const Codec codec : kAllCodecs) {
    for (const KvShape& shape : ShapesThatShrink(codec)) {
      SCOPED_TRACE(Case(codec, shape));
      const Encoded encoded = EncodeValues(codec, shape, GaussianValues(shape, 1));
      EXPECT_EQ(encoded.outcome.codec, codec);
      EXPECT_EQ(encoded.outcome.bytes, EncodedBytes(codec, shape));
      EXPECT_EQ(encoded.outcome.bytes % 16, 0U);
    }
  }
}

TEST(CodecTest, ExactCodecsAreBitwise) {
  const uint64_t seed = testing::TestSeed();
  for (const Codec codec : kExact) {
    for (const KvShape& shape : ShapesThatShrink(codec)) {
      ExpectBitwise(codec, codec, shape, GaussianValues(shape, seed));
      ExpectBitwise(codec, codec, shape, KvValues(RawBytes(shape) / 2, 0x4049));
      ExpectBitwise(codec, codec, shape, KvValues(RawBytes(shape) / 2, 0x8000));  // Value -0.
      // Subnormal value.
      ExpectBitwise(codec, codec, shape, KvValues(RawBytes(shape) / 2, 0x0003));
      KvValues sparse = GaussianValues(shape, seed);
      for (size_t i = 0; i < sparse.size(); i += 2) sparse[i] = 0;
      ExpectBitwise(codec, codec, shape, sparse);
    }
  }
}

TEST(CodecTest, OutlierChannelsArePacked) {
  ExpectBitwise(Codec::kPackedExponents, Codec::kPackedExponents, kLlama,
                GaussianValues(kLlama, testing::TestSeed(), kOutlier));
}

TEST(CodecTest, ExponentsAreEscapedUpToTheirRoomAndThenStayRaw) {
  const uint32_t room = PackedPlaneOf(kSmallShape).most_escapes();
  KvValues values(RawBytes(kSmallShape) / 2, kBf16One);
  const auto plane = std::span(values).first(PlaneElements(kSmallShape));
  for (uint32_t i = 0; i < room; ++i) plane[i * 7 + 1] = 0x1000 + i;
  ExpectBitwise(Codec::kPackedExponents, Codec::kPackedExponents, kSmallShape, values);
  plane[room * 7 + 1] = 0x1000;
  ExpectBitwise(Codec::kPackedExponents, Codec::kRaw, kSmallShape, values);
}

TEST(CodecTest, BlocksOfAnyBitsAreBitwiseOrRaw) {
  std::mt19937_64 random(testing::TestSeed());
  for (const KvShape& shape : KvShapes()) {
    KvValues values(RawBytes(shape) / 2);
    for (uint16_t& value : values) value = static_cast<uint16_t>(random());
    for (const Codec codec : kExact) ExpectBitwise(codec, Codec::kRaw, shape, values);
  }
}

TEST(CodecTest, ABlockWithNaNOrInfinityStaysRaw) {
  for (const Codec codec : kAllCodecs) {
    for (const uint16_t odd : {0x7f80, 0xff80, 0x7f81, 0xffc1, 0x7fff}) {
      for (const size_t place : {size_t{0}, size_t{2047}, RawBytes(kSmallShape) / 2 - 1}) {
        KvValues values = GaussianValues(kSmallShape, place);
        values[place] = odd;
        ExpectBitwise(codec, Codec::kRaw, kSmallShape, values);
        values.assign(values.size(), kBf16Largest);  // The exponent of this value is next to NaN's.
        values[place] = odd;
        ExpectBitwise(codec, Codec::kRaw, kSmallShape, values);
      }
    }
  }
}

TEST(CodecTest, ABlockThatWouldNotShrinkStaysRaw) {
  constexpr KvShape kOneToken = {
      .layers = 2, .axes = 1, .tokens = 1, .kv_heads = 2, .head_dim = 64};
  ExpectBitwise(Codec::kInt8, Codec::kRaw, kOneToken, GaussianValues(kOneToken, 1));
}

// Zeros, the smallest and the largest numbers decode to finite values within a step of the
// original.
TEST(CodecTest, LossyCodecsTakeEveryFiniteMagnitude) {
  for (const Codec codec : kLossy) {
    for (const uint16_t value : {0x0000, 0x8000, 0x0001, 0x8001, 0x0080, 0x7f7f, 0xff7f, 0x7f00}) {
      SCOPED_TRACE(Case(codec, kSmallShape) + ", value " + std::to_string(value));
      KvValues values(RawBytes(kSmallShape) / 2, value);
      for (size_t i = 0; i < values.size(); i += 3) values[i] = 0;
      const Encoded encoded = EncodeValues(codec, kSmallShape, values);
      EXPECT_EQ(encoded.outcome.codec, codec);
      const KvValues back = DecodeValues(codec, kSmallShape, encoded.bytes);
      ASSERT_EQ(back.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i) {
        const double was = FloatFromBf16(values[i]);
        const double is = FloatFromBf16(back[i]);
        ASSERT_LE(std::abs(is - was), std::abs(was) * 0.01) << i;
      }
    }
  }
}

TEST(CodecTest, EqualBlocksHaveEqualEncodings) {
  for (const Codec codec : kAllCodecs) {
    for (const KvShape& shape : KvShapes()) {
      SCOPED_TRACE(Case(codec, shape));
      const KvValues values = GaussianValues(shape, 3);
      const Encoded first = EncodeValues(codec, shape, values);
      // With other bytes in the buffer, padding that the codec does not write would differ.
      std::vector<std::byte> again(MaxEncodedBytes(shape), std::byte{0x5a});
      const CodecBlock block = {.source = std::as_bytes(std::span(values)).data(),
                                .source_bytes = RawBytes(shape),
                                .destination = again.data(),
                                .destination_bytes = again.size()};
      CodecOutcome outcome;
      ASSERT_EQ(
          EncodeOnHost(
              {.codec = codec, .shape = shape, .blocks = &block, .outcomes = &outcome, .count = 1}),
          0);
      again.resize(outcome.bytes);
      EXPECT_TRUE(again == first.bytes);
    }
  }
}

TEST(CodecTest, BlocksOfALaunchAreIndependent) {
  KvValues values[] = {GaussianValues(kSmallShape, 1), GaussianValues(kSmallShape, 2),
                       GaussianValues(kSmallShape, 3)};
  values[1][5] = 0x7f80;
  std::vector<std::byte> out(3 * MaxEncodedBytes(kSmallShape));
  std::vector<CodecBlock> blocks;
  for (size_t i = 0; i < 3; ++i) {
    blocks.push_back({.source = std::as_bytes(std::span(values[i])).data(),
                      .source_bytes = RawBytes(kSmallShape),
                      .destination = &out[i * MaxEncodedBytes(kSmallShape)],
                      .destination_bytes = MaxEncodedBytes(kSmallShape)});
  }
  std::vector<CodecOutcome> outcomes(3);
  ASSERT_EQ(EncodeOnHost({.codec = Codec::kInt8,
                          .shape = kSmallShape,
                          .blocks = blocks.data(),
                          .outcomes = outcomes.data(),
                          .count = 3}),
            0);
  for (size_t i = 0; i < 3; ++i) {
    const Encoded alone = EncodeValues(Codec::kInt8, kSmallShape, values[i]);
    EXPECT_EQ(outcomes[i].codec, i == 1 ? Codec::kRaw : Codec::kInt8);
    ASSERT_EQ(outcomes[i].bytes, alone.bytes.size());
    EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), blocks[i].destination));
  }
}

}  // namespace
}  // namespace kvtier::kernels
