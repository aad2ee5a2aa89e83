#include "tier_disk/log/record.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

using testing::DiskPayload;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 5000;  // Ends inside a page: the padding is no payload.

class RecordTest : public ::testing::Test {
 protected:
  RecordTest() : page_(kRecordHeaderBytes), slot_(DiskPayload(1, kLength)) {
    const BlockMeta meta = MakeDiskBlock(1, kLength);
    entry_ = {.block = DiskBlockOf(meta, TenantTag{7}),
              .place = {.segment = SegmentId{3}, .generation = 9, .offset = 8192}};
    header_ = {.key = meta.key,
               .space = meta.space,
               .length = kLength,
               .place = entry_.place,
               .sum = meta.sum};
    EncodeRecordHeader(header_, Page());
  }
  std::span<std::byte, kRecordHeaderBytes> Page() {
    return page_.bytes().first<kRecordHeaderBytes>();
  }
  absl::Status Verify() {
    return VerifyRecord(entry_, Page(), slot_.bytes().first(kLength)).status();
  }

  PageBuffer page_;
  PageBuffer slot_;
  DiskEntry entry_;
  RecordHeader header_;
};

TEST_F(RecordTest, WhatWasEncodedVerifiesAndTellsItsSum) {
  const auto sum = VerifyRecord(entry_, Page(), slot_.bytes().first(kLength));
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(*sum, header_.sum);
}

TEST_F(RecordTest, DecodingGivesBackEveryField) {
  const auto found = DecodeRecordHeader(Page());
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->key, header_.key);
  EXPECT_EQ(found->space, header_.space);
  EXPECT_EQ(found->length, kLength);
  EXPECT_EQ(found->place, header_.place);
  EXPECT_EQ(found->sum, header_.sum);
}

TEST_F(RecordTest, EveryBitOfTheHeaderPageCounts) {
  for (size_t bit = 0; bit < kRecordHeaderBytes * 8; ++bit) {
    Page()[bit / 8] ^= std::byte{1} << (bit % 8);
    ASSERT_TRUE(absl::IsDataLoss(Verify())) << "bit " << bit;
    Page()[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_F(RecordTest, EveryByteOfThePayloadCounts) {
  for (size_t byte = 0; byte < kLength; ++byte) {
    slot_.bytes()[byte] ^= std::byte{0x10};
    ASSERT_TRUE(absl::IsDataLoss(Verify())) << "byte " << byte;
    slot_.bytes()[byte] ^= std::byte{0x10};
  }
}

// The record is whole and valid, but is not the one that was requested.
TEST_F(RecordTest, AnotherIdentityOrPlaceIsDataLoss) {
  const auto with = [&](auto change) {
    RecordHeader other = header_;
    change(&other);
    EncodeRecordHeader(other, Page());
    return Verify();
  };
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->key.lo ^= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->space.bytes[31] ^= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->length -= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->place.generation -= 1; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->place.offset += 4096; })));
  EXPECT_TRUE(
      absl::IsDataLoss(with([](RecordHeader* header) { header->place.segment = SegmentId{4}; })));
  EXPECT_TRUE(absl::IsDataLoss(with([](RecordHeader* header) { header->sum.lo ^= 1; })));
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
