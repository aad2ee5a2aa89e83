#include "client/block_codec.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr uint16_t kNan = 0x7fc0;

SpaceSpec CodecSpace(const std::string& codec) {
  SpaceSpec spec = testing::TestSpace(0);
  spec.kv_heads = 3;
  spec.codec = codec;
  spec.block_bytes = SpaceCodec::Of(spec)->encoded_bytes();
  return spec;
}

SpaceSpec RoomySpace(const std::string& codec) {
  SpaceSpec spec = CodecSpace(codec);
  spec.block_bytes = SpaceCodec::Of(spec)->max_encoded_bytes();
  return spec;
}

float FloatOf(uint16_t bf16) { return std::bit_cast<float>(uint32_t{bf16} << 16); }

// Buffers of one block of Gaussian values: raw, stored in its slot, and decoded again.
struct Buffers {
  explicit Buffers(const SpaceSpec& spec)
      : raw(SpaceCodec::Of(spec)->raw_bytes() / 2), back(raw.size()), slot(spec.block_bytes) {
    std::mt19937_64 random(testing::TestSeed());
    std::normal_distribution<float> gauss;
    for (uint16_t& value : raw) {
      value = static_cast<uint16_t>(std::bit_cast<uint32_t>(gauss(random)) >> 16);
    }
  }
  std::span<const std::byte> raw_bytes() const { return std::as_bytes(std::span(raw)); }
  std::span<std::byte> back_bytes() { return std::as_writable_bytes(std::span(back)); }

  std::vector<uint16_t> raw;
  std::vector<uint16_t> back;
  std::vector<std::byte> slot;
};

double RelativeError(const Buffers& buffers) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < buffers.raw.size(); ++i) {
    const double x = FloatOf(buffers.raw[i]);
    const double y = FloatOf(buffers.back[i]);
    error += (x - y) * (x - y);
    norm += x * x;
  }
  return std::sqrt(error / norm);
}

TEST(BlockCodec, BlocksComeBackWithinTheBoundOfTheirCodec) {
  const std::vector<std::pair<std::string, double>> bounds = {
      {"fp8_e4m3", 0.03}, {"int8", 0.008}, {"packed_exponents", 0.0}};
  for (const auto& [name, bound] : bounds) {
    for (const SpaceSpec& spec : {CodecSpace(name), RoomySpace(name)}) {
      const BlockCodec codec = *BlockCodec::For(spec);
      Buffers buffers(spec);
      const absl::StatusOr<Codec> stored = codec.Encode(buffers.raw_bytes(), buffers.slot);
      ASSERT_TRUE(stored.ok()) << stored.status();
      EXPECT_EQ(*stored, codec.space().codec());
      const absl::Status decoded = codec.Decode(buffers.slot, buffers.back_bytes());
      ASSERT_TRUE(decoded.ok()) << decoded;
      EXPECT_LE(RelativeError(buffers), bound) << name;
    }
  }
}

TEST(BlockCodec, BothSizesHoldTheSameEncoding) {
  Buffers compact(CodecSpace("int8"));
  Buffers roomy(RoomySpace("int8"));
  roomy.raw = compact.raw;
  std::ranges::fill(roomy.slot, std::byte{0xee});
  ASSERT_TRUE(BlockCodec::For(CodecSpace("int8"))->Encode(compact.raw_bytes(), compact.slot).ok());
  ASSERT_TRUE(BlockCodec::For(RoomySpace("int8"))->Encode(roomy.raw_bytes(), roomy.slot).ok());
  compact.slot.resize(roomy.slot.size());  // Bytes after the end are zero.
  EXPECT_EQ(compact.slot, roomy.slot);
}

TEST(BlockCodec, ABlockWithANanIsStoredRawWhereThereIsRoom) {
  const SpaceSpec spec = RoomySpace("int8");
  Buffers buffers(spec);
  buffers.raw[1000] = kNan;
  const BlockCodec codec = *BlockCodec::For(spec);
  EXPECT_EQ(*codec.Encode(buffers.raw_bytes(), buffers.slot), Codec::kRaw);
  ASSERT_TRUE(codec.Decode(buffers.slot, buffers.back_bytes()).ok());
  EXPECT_EQ(buffers.back, buffers.raw);
}

TEST(BlockCodec, ABlockWithANanIsRefusedWhereThereIsNone) {
  const SpaceSpec spec = CodecSpace("int8");
  Buffers buffers(spec);
  buffers.raw[1000] = kNan;
  const absl::Status status =
      BlockCodec::For(spec)->Encode(buffers.raw_bytes(), buffers.slot).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("codec int8"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::to_string(spec.block_bytes)));
}

TEST(BlockCodec, AnEncodingOfAnotherCodecOrShapeIsNoneOfThisSpace) {
  Buffers buffers(RoomySpace("int8"));
  ASSERT_TRUE(BlockCodec::For(RoomySpace("int8"))->Encode(buffers.raw_bytes(), buffers.slot).ok());
  const BlockCodec other = *BlockCodec::For(RoomySpace("fp8_e4m3"));
  EXPECT_EQ(other.Decode(buffers.slot, buffers.back_bytes()).code(), absl::StatusCode::kDataLoss);
  buffers.slot[0] ^= std::byte{1};
  const BlockCodec same = *BlockCodec::For(RoomySpace("int8"));
  EXPECT_EQ(same.Decode(buffers.slot, buffers.back_bytes()).code(), absl::StatusCode::kDataLoss);
}

TEST(BlockCodec, BuffersOfAnotherSizeOrAlignmentAreNamed) {
  const SpaceSpec spec = CodecSpace("fp8_e4m3");
  const BlockCodec codec = *BlockCodec::For(spec);
  Buffers buffers(spec);
  const auto raw = buffers.raw_bytes();
  EXPECT_THAT(std::string(codec.Encode(raw.first(10), buffers.slot).status().message()),
              HasSubstr("raw has 10 bytes; must be 24576"));
  buffers.slot.resize(spec.block_bytes + 16);
  const std::span<std::byte> odd = std::span(buffers.slot).subspan(1, spec.block_bytes);
  EXPECT_THAT(std::string(codec.Encode(raw, odd).status().message()),
              HasSubstr("block begins 1 bytes past a multiple of 16"));
  EXPECT_EQ(codec.Decode(buffers.slot, buffers.back_bytes()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(BlockCodec, ARawSpaceHasNone) {
  SpaceSpec spec = CodecSpace("int8");
  spec.codec = kRawCodec;
  EXPECT_EQ(BlockCodec::For(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.model = "";
  EXPECT_THAT(std::string(BlockCodec::For(spec).status().message()), HasSubstr("space model"));
}

}  // namespace
}  // namespace kvtier
