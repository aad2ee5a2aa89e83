#include "tier_disk/record.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

using testing::DiskPayload;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 5000;  // Not a whole page: the padding is no payload.

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() : header_(kRecordHeaderBytes), slot_(DiskPayload(1, kLength)) {
    const DiskBlock block = MakeDiskBlock(1, kLength);
    const BlockIdentity identity{
        .key = block.key, .space = block.space, .length = kLength, .generation = 9};
    record_ = SealRecord(identity, block.sum);
    EncodeRecordHeader(record_, Header());
  }
  std::span<std::byte, kRecordHeaderBytes> Header() {
    return header_.bytes().first<kRecordHeaderBytes>();
  }
  absl::Status Verify() { return VerifyRecord(record_, Header(), slot_.bytes().first(kLength)); }

  PageBuffer header_;
  PageBuffer slot_;
  Record record_;
};

TEST_F(RecordTest, WhatWasEncodedVerifies) { EXPECT_EQ(Verify(), absl::OkStatus()); }

TEST_F(RecordTest, DecodingGivesBackEveryField) {
  const auto found = DecodeRecordHeader(Header());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->identity.key, record_.identity.key);
  EXPECT_EQ(found->identity.space, record_.identity.space);
  EXPECT_EQ(found->identity.length, kLength);
  EXPECT_EQ(found->identity.generation, 9);
  EXPECT_EQ(found->sum, record_.sum);
  EXPECT_EQ(found->seal, record_.seal);
}

TEST_F(RecordTest, EveryBitOfTheHeaderPageCounts) {
  for (size_t bit = 0; bit < kRecordHeaderBytes * 8; ++bit) {
    Header()[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_TRUE(absl::IsDataLoss(Verify())) << "bit " << bit;
    Header()[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_F(RecordTest, EveryByteOfThePayloadCounts) {
  for (size_t byte = 0; byte < kLength; ++byte) {
    slot_.bytes()[byte] ^= std::byte{0x10};
    ASSERT_TRUE(absl::IsDataLoss(Verify())) << "byte " << byte;
    slot_.bytes()[byte] ^= std::byte{0x10};
  }
}

// A record that is whole and proves itself, but is not the one that was asked for.
TEST_F(RecordTest, AnotherIdentityIsDataLoss) {
  const auto with = [&](auto change) {
    Record other = record_;
    change(&other.identity);
    EncodeRecordHeader(SealRecord(other.identity, other.sum), Header());
    return Verify();
  };
  EXPECT_TRUE(absl::IsDataLoss(with([](BlockIdentity* id) { id->key.lo ^= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](BlockIdentity* id) { id->space.bytes[31] ^= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](BlockIdentity* id) { id->length -= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](BlockIdentity* id) { id->generation -= 1; })));
}

TEST_F(RecordTest, ZeroesAreNoRecord) {
  PageBuffer zeroes(kRecordHeaderBytes);
  std::fill(zeroes.bytes().begin(), zeroes.bytes().end(), std::byte{0});
  EXPECT_TRUE(
      absl::IsDataLoss(DecodeRecordHeader(zeroes.bytes().first<kRecordHeaderBytes>()).status()));
}

TEST(RecordBytesTest, CountsHeaderAndPadding) {
  EXPECT_EQ(RecordBytes(1), 8192);
  EXPECT_EQ(RecordBytes(4096), 8192);
  EXPECT_EQ(RecordBytes(4097), 12288);
}

}  // namespace
}  // namespace kvtier
