// Tests the errors that codec_layout.h states: the bounds, the block size from which they hold, and
// errors measured outside. Every bound must hold for each of many seeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/codec.h"
#include "kernels/float_formats.h"
#include "tests/testing/kv_values.h"
#include "tests/testing/patience.h"

namespace kvtier::kernels {
namespace {

using testing::DecodeValues;
using testing::Encoded;
using testing::EncodeValues;
using testing::GaussianValues;
using testing::kSanitized;
using testing::KvValues;

constexpr Codec kLossy[] = {Codec::kFp8E4m3, Codec::kInt8};
constexpr uint64_t kSeeds = kSanitized ? 5 : 200;
constexpr uint64_t kSeedsOfLargeBlocks = kSanitized ? 1 : 3;
constexpr float kOutlier = 30;
constexpr uint64_t kOutlierEvery = 32;  // Same value as in GaussianValues().

double Bound(Codec codec) { return codec == Codec::kInt8 ? 0.008 : 0.03; }

// Relative errors of one block.
struct Errors {
  double block = 0;
  double values = 0;  // Error of V alone; 0 if there is none.
  double others = 0;  // Error of all but every 32nd channel.
};

struct Squares {
  double error = 0;
  double norm = 0;

  void Add(const Squares& more) {
    error += more.error;
    norm += more.norm;
  }
  double relative() const { return norm == 0 ? 0 : std::sqrt(error / norm); }
};

Errors ErrorsOf(const KvShape& shape, const KvValues& values, const KvValues& back) {
  EXPECT_EQ(back.size(), values.size());
  const uint64_t channels = Channels(shape);
  // Squares by axis, and by whether the channel is an outlier.
  std::array<std::array<Squares, 2>, 2> parts;
  for (uint64_t token = 0; token < back.size(); token += channels) {
    auto& axis = parts[token / PlaneElements(shape) % shape.axes];
    for (uint64_t channel = 0; channel < channels; ++channel) {
      const double value = FloatFromBf16(values[token + channel]);
      const double error = FloatFromBf16(back[token + channel]) - value;
      axis[channel % kOutlierEvery == 0 ? 1 : 0].Add(
          {.error = error * error, .norm = value * value});
    }
  }
  Squares of_values = parts[1][0];
  of_values.Add(parts[1][1]);
  Squares others = parts[0][0];
  others.Add(parts[1][0]);
  Squares block = of_values;
  block.Add(parts[0][0]);
  block.Add(parts[0][1]);
  return {.block = block.relative(), .values = of_values.relative(), .others = others.relative()};
}

Errors ErrorsOf(Codec codec, const KvShape& shape, const KvValues& values) {
  const Encoded encoded = EncodeValues(codec, shape, values);
  EXPECT_EQ(encoded.outcome.codec, codec);
  return ErrorsOf(shape, values, DecodeValues(codec, shape, encoded.bytes));
}

// Checks the bounds with each of the first `seeds` seeds.
void ExpectBounds(std::span<const Codec> codecs, const KvShape& shape, float outlier,
                  uint64_t seeds) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    const KvValues values = GaussianValues(shape, seed, outlier);
    for (const Codec codec : codecs) {
      SCOPED_TRACE(::testing::Message() << "codec " << static_cast<uint32_t>(codec) << ", " << shape
                                        << ", outliers x" << outlier << ", seed " << seed);
      const Errors errors = ErrorsOf(codec, shape, values);
      EXPECT_LE(errors.block, Bound(codec));
      EXPECT_LE(errors.values, Bound(codec));
      EXPECT_LE(errors.others, Bound(codec));
    }
  }
}

// Smallest blocks for which codec_layout.h states a bound, by the groups of K that lie in outlier
// channels.
struct Smallest {
  Codec codec = Codec::kRaw;
  KvShape shape{};
  uint64_t seeds = 0;
};

constexpr KvShape kTinyBlock = {.layers = 2, .tokens = 16, .kv_heads = 2, .head_dim = 64};
constexpr Smallest kWithOutliers[] = {
    // 32 groups.
    {Codec::kFp8E4m3, {.layers = 1, .tokens = 16, .kv_heads = 2, .head_dim = 64}, kSeeds},
    {Codec::kInt8, kTinyBlock, kSeeds},  // 8 groups.
    // 8 groups.
    {Codec::kInt8, {.layers = 2, .tokens = 64, .kv_heads = 2, .head_dim = 64}, kSeeds},
    {Codec::kInt8, {.layers = 8, .tokens = 256, .kv_heads = 1, .head_dim = 128}, kSeeds / 10},
};

TEST(CodecBoundsTest, HoldWithOutlierChannelsFromTheStatedSizeOn) {
  for (const Smallest& smallest : kWithOutliers) {
    ExpectBounds({&smallest.codec, 1}, smallest.shape, kOutlier, smallest.seeds);
  }
}

TEST(CodecBoundsTest, HoldForTinyBlocksWithoutOutliers) {
  ExpectBounds(kLossy, kTinyBlock, 1, kSeeds);
}

TEST(CodecBoundsTest, HoldForBlocksOfRealModels) {
  constexpr KvShape kBlocks[] = {
      {.layers = 32, .tokens = 16, .kv_heads = 8, .head_dim = 128},  // Llama 3 8B.
      {.layers = 80, .tokens = 16, .kv_heads = 1, .head_dim = 128},  // 70B, on one of eight ranks.
      {.layers = 32, .tokens = 7, .kv_heads = 3, .head_dim = 80},
      {.layers = 8, .tokens = 33, .kv_heads = 2, .head_dim = 256},
      {.layers = 32, .tokens = 64, .kv_heads = 1, .head_dim = 48},
      {.layers = 61, .axes = 1, .tokens = 64, .kv_heads = 1, .head_dim = 576},  // MLA.
      {.layers = 4, .tokens = 256, .kv_heads = 4, .head_dim = 128},
  };
  for (const KvShape& shape : kBlocks) {
    ExpectBounds(kLossy, shape, 1, kSeedsOfLargeBlocks);
    ExpectBounds(kLossy, shape, kOutlier, kSeedsOfLargeBlocks);
  }
}

// A step of V is shared along a row, so an outlier channel costs its neighbours precision. The
// format is made so, and suits models whose V has no such channels.
TEST(CodecBoundsTest, OutlierChannelsOfVErrAsFarAsStated) {
  constexpr KvShape kBlocks[] = {
      {.layers = 30, .tokens = 16, .kv_heads = 3, .head_dim = 64},
      {.layers = 32, .tokens = 16, .kv_heads = 1, .head_dim = 128},
  };
  struct Stated {
    Codec codec;
    double values;
    double others;
  };
  constexpr Stated kStated[] = {{Codec::kFp8E4m3, 0.017, 0.027}, {Codec::kInt8, 0.021, 0.08}};
  for (const KvShape& shape : kBlocks) {
    KvValues values = GaussianValues(shape, 1);
    for (size_t i = 0; i < values.size(); i += kOutlierEvery) {
      values[i] = Bf16FromFloat(FloatFromBf16(values[i]) * kOutlier);
    }
    for (const auto& [codec, of_values, others] : kStated) {
      SCOPED_TRACE(::testing::Message() << "codec " << static_cast<uint32_t>(codec) << shape);
      const Errors errors = ErrorsOf(codec, shape, values);
      EXPECT_LE(errors.values, of_values);
      EXPECT_LE(errors.others, others);
      EXPECT_EQ(errors.values <= Bound(codec), codec == Codec::kFp8E4m3);
      EXPECT_EQ(errors.others <= Bound(codec), codec == Codec::kFp8E4m3);
    }
  }
}

}  // namespace
}  // namespace kvtier::kernels
