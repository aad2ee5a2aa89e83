#include "core/space_codec.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

// Returns a space of Llama 3 8B with blocks of 16 tokens.
SpaceSpec Int8Space() {
  SpaceSpec spec = testing::TestSpace(1122368);
  spec.layers = 32;
  spec.kv_heads = 8;
  spec.head_dim = 128;
  spec.codec = "int8";
  return spec;
}

TEST(SpaceCodec, KnowsTheSizesOfItsBlocks) {
  const SpaceCodec codec = *SpaceCodec::Of(Int8Space());
  EXPECT_EQ(codec.codec(), Codec::kInt8);
  EXPECT_EQ(codec.shape().axes, 2U);
  EXPECT_EQ(codec.raw_bytes(), 2097152U);
  EXPECT_EQ(codec.encoded_bytes(), 1122368U);  // A header, codes, a step for each group.
  EXPECT_EQ(codec.max_encoded_bytes(), 2097216U);
}

TEST(SpaceCodec, NamesAreThoseOfTheSpec) {
  for (const char* name : {"fp8_e4m3", "int8", "packed_exponents"}) {
    SpaceSpec spec = Int8Space();
    spec.codec = name;
    const absl::StatusOr<SpaceCodec> codec = SpaceCodec::Of(spec);
    ASSERT_TRUE(codec.ok()) << codec.status();
    EXPECT_EQ(CodecName(codec->codec()), name);
  }
  EXPECT_EQ(CodecName(Codec::kRaw), kRawCodec);
}

TEST(SpaceCodec, ALayoutWithoutKvHasOneAxis) {
  SpaceSpec spec = Int8Space();
  spec.layout = "layer,token,head,dim";
  EXPECT_EQ(SpaceCodec::Of(spec)->shape().axes, 1U);
}

TEST(SpaceCodec, ABlockHasOneOfTwoSizes) {
  SpaceSpec spec = Int8Space();
  for (const uint64_t good : {1122368, 2097216}) {
    spec.block_bytes = good;
    EXPECT_TRUE(spec.Validate().ok()) << spec.Validate();
  }
  for (const uint64_t bad : {1122367, 1122369, 2097152, 2097215, 2097217}) {
    spec.block_bytes = bad;
    const absl::Status status = spec.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    for (const std::string& says : {std::to_string(bad), std::string("1122368"),
                                    std::string("2097216"), std::string("space block_bytes")}) {
      EXPECT_THAT(std::string(status.message()), HasSubstr(says));
    }
  }
}

struct Bad {
  const char* says;
  std::function<void(SpaceSpec&)> change;
};

TEST(SpaceCodec, WhatItCannotEncodeIsRefusedByFieldAndValue) {
  const std::vector<Bad> cases = {
      {"space codec \"zip\"; must be raw, fp8_e4m3, int8 or packed_exponents",
       [](SpaceSpec& s) { s.codec = "zip"; }},
      {"space codec \"int4\"; must be", [](SpaceSpec& s) { s.codec = "int4"; }},
      {"space codec \"\"", [](SpaceSpec& s) { s.codec = ""; }},
      {"space codec \"\\xff\\n\"", [](SpaceSpec& s) { s.codec = "\xff\n"; }},
      {"space dtype \"float32\"; codec int8", [](SpaceSpec& s) { s.dtype = "float32"; }},
      {"space layout \"token,dim\"; codec int8", [](SpaceSpec& s) { s.layout = "token,dim"; }},
      {"space head_dim is 72; codec int8", [](SpaceSpec& s) { s.head_dim = 72; }},
      {"4096 x 2 x 16 x 8 x 128; codec int8", [](SpaceSpec& s) { s.layers = 4096; }},
      {"space tokens_per_block is 1; codec int8",
       [](SpaceSpec& s) { s.layout = "layer,token,head,dim", s.tokens_per_block = 1; }},
  };
  for (const Bad& bad : cases) {
    SpaceSpec spec = Int8Space();
    bad.change(spec);
    EXPECT_EQ(spec.Validate().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(spec.Validate().message()), HasSubstr(bad.says));
    EXPECT_FALSE(SpaceCodec::Of(spec).ok());
  }
}

TEST(SpaceCodec, ARawSpaceHasNone) {
  SpaceSpec spec = Int8Space();
  spec.codec = kRawCodec;
  EXPECT_EQ(SpaceCodec::Of(spec).status().code(), absl::StatusCode::kInvalidArgument);
  spec.dtype = "anything", spec.layout = "any", spec.head_dim = 7, spec.block_bytes = 3;
  EXPECT_TRUE(spec.Validate().ok()) << spec.Validate();
}

}  // namespace
}  // namespace kvtier
