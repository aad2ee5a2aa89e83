// Tests which input is refused, and that nothing outside the bounds of a launch is touched. Under
// AddressSanitizer the exact buffers here also catch reads.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "kernels/codec.h"
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

constexpr std::byte kPoison{0xa5};

// Rig is a launch of one block. The source has a buffer of exactly its size, and the destination
// has `room` bytes, followed by poison.
class Rig {
 public:
  Rig(std::span<const std::byte> source, uint64_t room)
      : source_(source.begin(), source.end()), destination_(room + kGuard, kPoison), room_(room) {}

  CodecLaunch Launch(Codec codec, const KvShape& shape) {
    block_ = {.source = source_.data(),
              .source_bytes = source_.size(),
              .destination = destination_.data(),
              .destination_bytes = room_};
    return {.codec = codec, .shape = shape, .blocks = &block_, .outcomes = &outcome_, .count = 1};
  }
  uint64_t bytes() const { return outcome_.bytes; }
  bool GuardHolds() const {
    return std::all_of(destination_.begin() + static_cast<std::ptrdiff_t>(room_),
                       destination_.end(), [](std::byte b) { return b == kPoison; });
  }

 private:
  static constexpr uint64_t kGuard = 4096;
  std::vector<std::byte> source_;
  std::vector<std::byte> destination_;
  uint64_t room_;
  CodecBlock block_;
  CodecOutcome outcome_;
};

std::span<const std::byte> BytesOf(const KvValues& values) {
  return std::as_bytes(std::span(values));
}

TEST(CodecDamageTest, ALaunchThatCannotRunIsRefused) {
  const KvValues values = GaussianValues(kSmallShape, 1);
  Rig rig(BytesOf(values), MaxEncodedBytes(kSmallShape));
  const CodecLaunch good = rig.Launch(Codec::kInt8, kSmallShape);
  std::vector<CodecLaunch> bad(5, good);
  bad[0].codec = static_cast<Codec>(5);
  bad[1].shape.head_dim = 24;
  bad[2].blocks = nullptr;
  bad[3].outcomes = nullptr;
  bad[4].thread_blocks = 0;
  for (const CodecLaunch& launch : bad) {
    EXPECT_EQ(EncodeOnHost(launch), kInvalidLaunch);
    EXPECT_EQ(DecodeOnHost(launch), kInvalidLaunch);
  }
  EXPECT_EQ(EncodeOnHost(good), 0);
  EXPECT_EQ(EncodeOnHost({.shape = kSmallShape}), 0) << "no blocks need no list";
}

TEST(CodecDamageTest, ShapesOutsideTheirRangesAreNotEncodable) {
  EXPECT_TRUE(IsEncodable(kSmallShape));
  std::vector<KvShape> bad(10, kSmallShape);
  bad[0].layers = 0;
  bad[1].layers = 4097;
  bad[2].axes = 0;
  bad[3].axes = 3;
  bad[4].tokens = 0;
  bad[5].kv_heads = 0;
  bad[6].head_dim = 0;
  bad[7].head_dim = 8;
  bad[8].head_dim = 129;
  bad[9] = {.layers = 4096, .tokens = 65536, .kv_heads = 4096, .head_dim = 65536};
  for (const KvShape& shape : bad) EXPECT_FALSE(IsEncodable(shape)) << shape;
  KvShape largest = {.layers = 32, .tokens = 512, .kv_heads = 8, .head_dim = 128};
  EXPECT_EQ(RawBytes(largest), kMaxRawBytes);
  EXPECT_TRUE(IsEncodable(largest));
  largest.layers = 33;
  EXPECT_FALSE(IsEncodable(largest));
}

TEST(CodecDamageTest, ABlockWithTooLittleRoomIsNotConverted) {
  const KvValues values = GaussianValues(kSmallShape, 1);
  for (const Codec codec : kAllCodecs) {
    Rig short_source(BytesOf(values).first(RawBytes(kSmallShape) - 1),
                     MaxEncodedBytes(kSmallShape));
    EXPECT_EQ(EncodeOnHost(short_source.Launch(codec, kSmallShape)), 0);
    EXPECT_EQ(short_source.bytes(), 0U);
    Rig short_destination(BytesOf(values), MaxEncodedBytes(kSmallShape) - 1);
    EXPECT_EQ(EncodeOnHost(short_destination.Launch(codec, kSmallShape)), 0);
    EXPECT_EQ(short_destination.bytes(), 0U);
    EXPECT_TRUE(short_destination.GuardHolds());
    const Encoded encoded = EncodeValues(codec, kSmallShape, values);
    Rig decode(encoded.bytes, RawBytes(kSmallShape) - 1);
    EXPECT_EQ(DecodeOnHost(decode.Launch(codec, kSmallShape)), 0);
    EXPECT_EQ(decode.bytes(), 0U);
    EXPECT_TRUE(decode.GuardHolds());
  }
}

TEST(CodecDamageTest, ACutEncodingIsNotTaken) {
  const KvValues values = GaussianValues(kSmallShape, 1);
  for (const Codec codec : kAllCodecs) {
    const Encoded encoded = EncodeValues(codec, kSmallShape, values);
    const size_t whole = encoded.bytes.size();
    for (const size_t kept : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, whole / 2, whole - 1}) {
      Rig rig(std::span(encoded.bytes).first(kept), RawBytes(kSmallShape));
      EXPECT_EQ(DecodeOnHost(rig.Launch(codec, kSmallShape)), 0);
      EXPECT_EQ(rig.bytes(), 0U) << kept << " of " << whole;
    }
  }
}

TEST(CodecDamageTest, AnEncodingOfAnotherShapeOrCodecIsNotTaken) {
  const KvValues values = GaussianValues(kSmallShape, 1);
  KvShape other = kSmallShape;  // Has the same size, and another order of the elements.
  std::swap(other.tokens, other.kv_heads);
  for (const Codec stored : kAllCodecs) {
    const Encoded encoded = EncodeValues(stored, kSmallShape, values);
    EXPECT_TRUE(DecodeValues(stored, other, encoded.bytes).empty());
    for (const Codec asked : kAllCodecs) {
      const bool taken = !DecodeValues(asked, kSmallShape, encoded.bytes).empty();
      EXPECT_EQ(taken, stored == asked || stored == Codec::kRaw);
    }
  }
}

TEST(CodecDamageTest, AnyChangedByteOfTheHeaderIsNoticed) {
  const KvValues values = GaussianValues(kSmallShape, 1);
  for (const Codec codec : kAllCodecs) {
    const Encoded encoded = EncodeValues(codec, kSmallShape, values);
    for (size_t i = 0; i < kEncodedHeaderBytes; ++i) {
      std::vector<std::byte> damaged = encoded.bytes;
      damaged[i] ^= std::byte{0x80};
      EXPECT_TRUE(DecodeValues(codec, kSmallShape, damaged).empty()) << i;
    }
  }
}

TEST(CodecDamageTest, EscapesThatDoNotAddUpAreNoticed) {
  KvValues values(RawBytes(kSmallShape) / 2, 0x3f80);
  values[3] = 0x1000;
  const Encoded encoded = EncodeValues(Codec::kPackedExponents, kSmallShape, values);
  ASSERT_EQ(encoded.outcome.codec, Codec::kPackedExponents);
  const size_t count = kEncodedHeaderBytes + PackedPlaneOf(kSmallShape).escapes;
  ASSERT_EQ(encoded.bytes[count], std::byte{1});
  for (const std::byte wrong : {std::byte{0}, std::byte{2}, std::byte{0xff}}) {
    std::vector<std::byte> damaged = encoded.bytes;
    damaged[count] = wrong;
    EXPECT_TRUE(DecodeValues(Codec::kPackedExponents, kSmallShape, damaged).empty());
    damaged[count + 3] = std::byte{0x80};  // Claims two thousand million of them.
    EXPECT_TRUE(DecodeValues(Codec::kPackedExponents, kSmallShape, damaged).empty());
  }
}

// Any content after an intact header is decoded to some values or refused, within bounds.
TEST(CodecDamageTest, DamagedEncodingsStayInTheirBounds) {
  std::mt19937_64 random(testing::TestSeed());
  for (const Codec codec : kAllCodecs) {
    for (const KvShape& shape : KvShapes()) {
      const Encoded encoded = EncodeValues(codec, shape, GaussianValues(shape, 1));
      for (int round = 0; round < 8; ++round) {
        std::vector<std::byte> damaged = encoded.bytes;
        const bool all = round == 0;
        const size_t changes = all ? damaged.size() : size_t{1} << round;
        for (size_t i = 0; i < changes; ++i) {
          const size_t at = all ? i : random() % damaged.size();
          if (at >= kEncodedHeaderBytes) damaged[at] = static_cast<std::byte>(random());
        }
        Rig rig(damaged, RawBytes(shape));
        EXPECT_EQ(DecodeOnHost(rig.Launch(codec, shape)), 0);
        EXPECT_TRUE(rig.bytes() == 0 || rig.bytes() == RawBytes(shape));
        EXPECT_TRUE(rig.GuardHolds());
      }
    }
  }
}

}  // namespace
}  // namespace kvtier::kernels
