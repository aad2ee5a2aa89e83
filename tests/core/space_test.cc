#include "core/space.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/blocks.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

SpaceSpec KnownSpace() {
  return {.model = "llama-3-8b",
          .weights_digest = "sha256:aa",
          .lora = "adapter@1",
          .dtype = "bfloat16",
          .layout = "layer,kv,token,head,dim",
          .layers = 32,
          .kv_heads = 8,
          .head_dim = 128,
          .tokens_per_block = 16,
          .tensor_rank = 1,
          .tensor_size = 2,
          .pipeline_rank = 0,
          .pipeline_size = 1,
          .block_bytes = 1 << 20};
}

// Returns KnownSpace() with encoded blocks.
SpaceSpec EncodedSpace() {
  SpaceSpec space = KnownSpace();
  space.codec = "int8";
  space.block_bytes = 1122368;
  return space;
}

// Changes one field, leaving the space valid.
using Change = std::function<void(SpaceSpec&)>;

const std::vector<Change>& OneChangePerField() {
  static const std::vector<Change> changes = {
      [](SpaceSpec& s) { s.model += "x"; },
      [](SpaceSpec& s) { s.weights_digest += "x"; },
      [](SpaceSpec& s) { s.lora += "x"; },
      [](SpaceSpec& s) { s.dtype += "x"; },
      [](SpaceSpec& s) { s.layout += "x"; },
      [](SpaceSpec& s) { s.layers += 1; },
      [](SpaceSpec& s) { s.kv_heads += 1; },
      [](SpaceSpec& s) { s.head_dim += 1; },
      [](SpaceSpec& s) { s.tokens_per_block += 1; },
      [](SpaceSpec& s) { s.tensor_rank = 0; },
      [](SpaceSpec& s) { s.tensor_size += 1; },
      [](SpaceSpec& s) { s.pipeline_size += 1; },
      [](SpaceSpec& s) { s.pipeline_size = 2, s.pipeline_rank = 1; },
      [](SpaceSpec& s) { s.block_bytes += 1; },
      [](SpaceSpec& s) { s.any_length = true; },
  };
  return changes;
}

// Known answer: Python's hashlib over the encoding that space.h states.
TEST(SpaceSpec, DigestHasTheKnownAnswer) {
  EXPECT_EQ(KnownSpace().Digest().ToHex(),
            "96aacb0f45a930964d6ff79ed9a37559c2dc95a89f5940f345fd3abaf89f9617");
}

// The codec is the digest's last item. A raw space has no such item, so codecs left its digest as
// it was.
TEST(SpaceSpec, CodecIsTheLastItemOfTheDigest) {
  EXPECT_EQ(EncodedSpace().Digest().ToHex(),
            "8f04af1477da475f5c86cb7508ba4f38d49c332973d8928e3e3957947651bf81");
}

// Known answer: as above, with the items "raw" and one byte of 1 at the end.
TEST(SpaceSpec, AnyLengthIsBehindTheCodecInTheDigest) {
  SpaceSpec space = KnownSpace();
  space.any_length = true;
  EXPECT_EQ(space.Digest().ToHex(),
            "4f1916fc86641dd6723f849afe9e0ed51ab30379c47cc3e08a9ff2c421c3827f");
}

TEST(SpaceSpec, ACodecMakesBlocksOfOneLength) {
  SpaceSpec space = EncodedSpace();
  space.any_length = true;
  EXPECT_EQ(space.Validate(),
            absl::InvalidArgumentError(
                "space any_length is true; codec \"int8\" makes blocks of one length"));
}

TEST(SpaceSpec, SpacesOfDifferentCodecsHaveDifferentDigests) {
  std::set<SpaceDigest> digests;
  for (const char* codec : {"raw", "fp8_e4m3", "int8", "packed_exponents"}) {
    SpaceSpec space = EncodedSpace();
    space.codec = codec;
    space.block_bytes = 2097216;  // The same for all codecs, with room for raw blocks.
    EXPECT_TRUE(space.Validate().ok()) << space.Validate();
    digests.insert(space.Digest());
  }
  EXPECT_EQ(digests.size(), 4U);
}

TEST(SpaceSpec, EveryFieldChangesTheDigest) {
  std::set<SpaceDigest> digests = {KnownSpace().Digest()};
  for (const Change& change : OneChangePerField()) {
    SpaceSpec space = KnownSpace();
    change(space);
    EXPECT_TRUE(space.Validate().ok()) << space.Validate();
    digests.insert(space.Digest());
  }
  EXPECT_EQ(digests.size(), OneChangePerField().size() + 1);
}

// Two fields side by side must not hash as one string.
TEST(SpaceSpec, TextMovedBetweenFieldsChangesTheDigest) {
  SpaceSpec a = KnownSpace();
  SpaceSpec b = KnownSpace();
  a.model = "ab", a.weights_digest = "c";
  b.model = "a", b.weights_digest = "bc";
  EXPECT_NE(a.Digest(), b.Digest());
}

TEST(SpaceSpec, ExchangedNumbersChangeTheDigest) {
  SpaceSpec exchanged = KnownSpace();
  std::swap(exchanged.layers, exchanged.kv_heads);
  EXPECT_NE(exchanged.Digest(), KnownSpace().Digest());
}

TEST(SpaceSpec, AcceptsTheBoundsOfEveryField) {
  SpaceSpec lowest = testing::TestSpace(1);
  lowest.model = lowest.weights_digest = lowest.dtype = lowest.layout = "x";
  lowest.layers = lowest.kv_heads = lowest.head_dim = lowest.tokens_per_block = 1;
  EXPECT_TRUE(lowest.Validate().ok()) << lowest.Validate();
  SpaceSpec highest = testing::TestSpace(kMaxBlockBytes);
  highest.model = highest.weights_digest = highest.lora = highest.dtype = highest.layout =
      std::string(kMaxSpaceTextBytes, 'x');
  highest.layers = highest.kv_heads = highest.tensor_size = highest.pipeline_size = 4096;
  highest.tensor_rank = highest.pipeline_rank = 4095;
  highest.head_dim = highest.tokens_per_block = 65536;
  EXPECT_TRUE(highest.Validate().ok()) << highest.Validate();
}

TEST(SpaceSpec, TextMayBeAnyUtf8AndADigestAnyBytes) {
  SpaceSpec space = KnownSpace();
  space.model = "\xc3\xa4 \xe6\xbc\xa2 \xf0\x9f\x90\x88 \xf4\x8f\xbf\xbf";
  space.weights_digest = std::string("\x00\xff\xfe", 3);
  EXPECT_TRUE(space.Validate().ok()) << space.Validate();
}

struct BadField {
  const char* field;
  const char* value;  // Text that the message must have.
  Change change;
};

TEST(SpaceSpec, ValidationNamesFieldAndValue) {
  const std::string long_text(kMaxSpaceTextBytes + 1, 'x');
  const std::vector<BadField> cases = {
      {"model", "0 bytes", [](SpaceSpec& s) { s.model = ""; }},
      {"model", "257 bytes", [&](SpaceSpec& s) { s.model = long_text; }},
      {"model", "\\xff\" is not UTF-8", [](SpaceSpec& s) { s.model = "a\xff"; }},
      {"lora", "is not UTF-8", [](SpaceSpec& s) { s.lora = "cut \xc3"; }},
      {"dtype", "is not UTF-8", [](SpaceSpec& s) { s.dtype = "\xc0\x80"; }},        // Overlong.
      {"layout", "is not UTF-8", [](SpaceSpec& s) { s.layout = "\xed\xa0\x80"; }},  // Surrogate.
      {"layout", "is not UTF-8",
       [](SpaceSpec& s) { s.layout = "\xf4\x90\x80\x80"; }},  // Too large.
      {"weights_digest", "0 bytes", [](SpaceSpec& s) { s.weights_digest = ""; }},
      {"weights_digest", "257 bytes", [&](SpaceSpec& s) { s.weights_digest = long_text; }},
      {"lora", "257 bytes", [&](SpaceSpec& s) { s.lora = long_text; }},
      {"dtype", "0 bytes", [](SpaceSpec& s) { s.dtype = ""; }},
      {"dtype", "257 bytes", [&](SpaceSpec& s) { s.dtype = long_text; }},
      {"layout", "0 bytes", [](SpaceSpec& s) { s.layout = ""; }},
      {"layout", "257 bytes", [&](SpaceSpec& s) { s.layout = long_text; }},
      {"layers", "is 0", [](SpaceSpec& s) { s.layers = 0; }},
      {"layers", "is 4097", [](SpaceSpec& s) { s.layers = 4097; }},
      {"kv_heads", "is 0", [](SpaceSpec& s) { s.kv_heads = 0; }},
      {"kv_heads", "is 4097", [](SpaceSpec& s) { s.kv_heads = 4097; }},
      {"head_dim", "is 0", [](SpaceSpec& s) { s.head_dim = 0; }},
      {"head_dim", "is 65537", [](SpaceSpec& s) { s.head_dim = 65537; }},
      {"tokens_per_block", "is 0", [](SpaceSpec& s) { s.tokens_per_block = 0; }},
      {"tokens_per_block", "is 65537", [](SpaceSpec& s) { s.tokens_per_block = 65537; }},
      {"tensor_size", "is 0", [](SpaceSpec& s) { s.tensor_size = 0; }},
      {"tensor_size", "is 4097", [](SpaceSpec& s) { s.tensor_size = 4097; }},
      {"tensor_rank", "is 2", [](SpaceSpec& s) { s.tensor_rank = 2; }},
      {"pipeline_size", "is 0", [](SpaceSpec& s) { s.pipeline_size = 0; }},
      {"pipeline_size", "is 4097", [](SpaceSpec& s) { s.pipeline_size = 4097; }},
      {"pipeline_rank", "is 1", [](SpaceSpec& s) { s.pipeline_rank = 1; }},
      {"block_bytes", "is 0", [](SpaceSpec& s) { s.block_bytes = 0; }},
      {"block_bytes", "is 67108865", [](SpaceSpec& s) { s.block_bytes = kMaxBlockBytes + 1; }},
  };
  for (const BadField& bad : cases) {
    SpaceSpec space = KnownSpace();
    bad.change(space);
    const absl::Status status = space.Validate();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.field;
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("space ") + bad.field + " "));
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.value));
  }
}

TEST(SpaceSpec, ValidationEscapesHostileText) {
  SpaceSpec space = KnownSpace();
  space.dtype = std::string(kMaxSpaceTextBytes, '\n') + "\x1b";
  const std::string message(space.Validate().message());
  EXPECT_EQ(message.find('\n'), std::string::npos);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
}

TEST(SlotBytes, RoundsUpToFourKibibytes) {
  EXPECT_EQ(SlotBytes(1), 4096u);
  EXPECT_EQ(SlotBytes(4095), 4096u);
  EXPECT_EQ(SlotBytes(4096), 4096u);
  EXPECT_EQ(SlotBytes(4097), 8192u);
  EXPECT_EQ(SlotBytes(kMaxBlockBytes), kMaxBlockBytes);
}

}  // namespace
}  // namespace kvtier
