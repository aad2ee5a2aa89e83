#include "proto/sequence_keys.h"

#include <cstddef>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/convert.h"
#include "tests/testing/blocks.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::convert {
namespace {

using ::kvtier::testing::AddWireKey;
using ::kvtier::testing::TestEngineKey;
using ::testing::HasSubstr;

EngineKey KeyOf(size_t bytes) { return *EngineKey::FromBytes(std::string(bytes, 'k')); }

void ExpectRefused(const v1::Sequence& sequence, const std::vector<std::string>& words) {
  const absl::Status status = EngineKeysFrom(sequence).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  for (const std::string& word : words) EXPECT_THAT(status.message(), HasSubstr(word));
}

TEST(EngineKeysOnTheWire, ComeBackAsTheyWereWithOneSizeWhereAllAreAlike) {
  const std::vector<EngineKey> keys = {TestEngineKey(1), TestEngineKey(2), TestEngineKey(3)};
  v1::Sequence sequence;
  AddWireKey("what was there", &sequence);
  SetEngineKeys(keys, &sequence);
  EXPECT_EQ(sequence.key_bytes_size(), 1);
  EXPECT_EQ(CountEngineKeys(sequence), 3u);
  EXPECT_EQ(*EngineKeysFrom(sequence), keys);
}

TEST(EngineKeysOnTheWire, MayDifferInSizeFromTheShortestToTheLongest) {
  const std::vector<EngineKey> keys = {KeyOf(kMinEngineKeyBytes), KeyOf(kMaxEngineKeyBytes),
                                       KeyOf(kMinEngineKeyBytes)};
  v1::Sequence sequence;
  SetEngineKeys(keys, &sequence);
  EXPECT_EQ(sequence.key_bytes_size(), 3);
  EXPECT_EQ(CountEngineKeys(sequence), 3u);
  EXPECT_EQ(*EngineKeysFrom(sequence), keys);
}

TEST(EngineKeysOnTheWire, OfNoneAreNone) {
  v1::Sequence sequence;
  SetEngineKeys({}, &sequence);
  EXPECT_EQ(CountEngineKeys(sequence), 0u);
  EXPECT_TRUE(EngineKeysFrom(sequence)->empty());
}

TEST(EngineKeysOnTheWire, OneByteBeyondIsRefusedWithItsPlace) {
  for (const size_t bytes : {size_t{0}, kMinEngineKeyBytes - 1, kMaxEngineKeyBytes + 1}) {
    v1::Sequence sequence;
    AddWireKey(std::string(kMinEngineKeyBytes, 'k'), &sequence);
    AddWireKey(std::string(bytes, 'k'), &sequence);
    ExpectRefused(sequence, {"engine_keys[1]", std::to_string(bytes)});
  }
}

TEST(EngineKeysOnTheWire, MoreThanTheLimitAreRefused) {
  v1::Sequence sequence;
  sequence.add_key_bytes(16);
  sequence.set_engine_keys(std::string(16 * kMaxKeysPerRequest, 'k'));
  EXPECT_TRUE(EngineKeysFrom(sequence).ok());
  sequence.mutable_engine_keys()->append(std::string(16, 'k'));
  ExpectRefused(sequence, {"engine_keys", "8193", "8192"});
}

TEST(EngineKeysOnTheWire, SizesThatDoNotAddUpAreRefused) {
  v1::Sequence sequence;
  sequence.set_engine_keys(std::string(40, 'k'));
  ExpectRefused(sequence, {"key_bytes", "0 sizes", "40 bytes"});
  sequence.add_key_bytes(16);
  ExpectRefused(sequence, {"key_bytes", "1 sizes", "40 bytes"});
  sequence.add_key_bytes(25);
  ExpectRefused(sequence, {"key_bytes", "2 sizes", "40 bytes"});
  sequence.set_key_bytes(1, 24);
  EXPECT_EQ(EngineKeysFrom(sequence)->size(), 2u);
  sequence.clear_key_bytes();
  sequence.add_key_bytes(0);
  ExpectRefused(sequence, {"engine_keys[0]", "0"});
}

TEST(EngineKeysOnTheWire, AnEmptyOptionalKeyIsNone) {
  EXPECT_FALSE(OptionalEngineKeyFrom("", "parent_engine_key")->has_value());
  EXPECT_TRUE(OptionalEngineKeyFrom("12345678", "parent_engine_key")->has_value());
  const absl::Status status = OptionalEngineKeyFrom("1234567", "parent_engine_key").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("parent_engine_key"));
}

}  // namespace
}  // namespace kvtier::convert
