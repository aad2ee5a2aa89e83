#include "tier_disk/log/room_shares.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/numbered_key.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

constexpr TenantTag kA{1};
constexpr TenantTag kB{2};
constexpr TenantTag kC{3};
constexpr uint64_t kLength = 4096;
const uint64_t kRecord = RecordBytes(kLength);

// Fixture with a disk of a hundred records, of which fifty are divided.
class RoomSharesTest : public ::testing::Test {
 protected:
  void Add(TenantTag owner, int blocks) {
    for (int i = 0; i < blocks; ++i, ++number_) {
      index_.Insert({.key = testing::NumberedKey(number_), .length = kLength, .owner = owner},
                    {.segment = SegmentId{static_cast<uint32_t>(number_ / 10)},
                     .generation = 1,
                     .offset = number_ % 10 * kRecord});
    }
  }
  TenantRoom RoomOf(TenantTag owner) const {
    for (const TenantRoom& room : shares_.Report(index_)) {
      if (room.owner == owner) return room;
    }
    ADD_FAILURE() << "no such tenant";
    return {};
  }

  RecordIndex index_{20};
  RoomShares shares_{100 * kRecord, 10 * kRecord};
  uint64_t number_ = 0;
};

TEST_F(RoomSharesTest, TenantsWithoutAShareAreGuaranteedEqualPartsOfWhatTheOthersLeave) {
  const std::vector<OwnerShare> shares = {
      {kA, TierShare{.guaranteed = 20 * kRecord}}, {kB, {}}, {kC, {}}};
  ASSERT_EQ(shares_.Set(shares, index_), absl::OkStatus());
  EXPECT_EQ(RoomOf(kA).guaranteed_bytes, 20 * kRecord);
  EXPECT_EQ(RoomOf(kB).guaranteed_bytes, 15 * kRecord);
  EXPECT_EQ(RoomOf(kC).guaranteed_bytes, 15 * kRecord);
}

TEST_F(RoomSharesTest, WhatCannotBeGuaranteedChangesNothing) {
  ASSERT_EQ(shares_.Set(std::vector<OwnerShare>{{kA, {}}}, index_), absl::OkStatus());
  for (const TierShare& bad :
       {TierShare{.guaranteed = 50 * kRecord + 1}, TierShare{.guaranteed = 2, .maximum = 1},
        TierShare{.weight = 0}, TierShare{.weight = kMaxShareWeight + 1}}) {
    const std::vector<OwnerShare> shares = {{kA, bad}};
    EXPECT_TRUE(absl::IsInvalidArgument(shares_.Set(shares, index_)));
  }
  EXPECT_EQ(RoomOf(kA).guaranteed_bytes, 50 * kRecord);
}

TEST_F(RoomSharesTest, OnlyTheFurthestOverPayAtFirst) {
  const std::vector<OwnerShare> shares = {{kA, {}}, {kB, {}}, {kC, {}}};
  ASSERT_EQ(shares_.Set(shares, index_), absl::OkStatus());
  Add(kA, 50);
  Add(kB, 30);
  Add(kC, 5);
  // C has five of the fifty; A and B could have 22.5 each.
  const Allowances furthest = shares_.MayTake(index_, RoomShares::TakeFrom::kFurthestOver);
  EXPECT_NEAR(furthest.Of(kA), 27.5 * kRecord, 2);
  EXPECT_EQ(furthest.Of(kB), 0U);
  EXPECT_EQ(furthest.Of(kC), 0U);
  const Allowances all = shares_.MayTake(index_, RoomShares::TakeFrom::kAllOver);
  EXPECT_NEAR(all.Of(kB), 7.5 * kRecord, 2);
  EXPECT_EQ(all.Of(kC), 0U);
}

TEST_F(RoomSharesTest, ATenantThatIsNotNamedHasItsFairShareAndNoGuarantee) {
  ASSERT_EQ(shares_.Set(std::vector<OwnerShare>{{kA, {}}}, index_), absl::OkStatus());
  Add(kA, 60);
  Add(kB, 10);
  EXPECT_EQ(shares_.MayTake(index_, RoomShares::TakeFrom::kAllOver).Of(kB), 10 * kRecord);
}

TEST_F(RoomSharesTest, EvictionsAreForTheTenantsOwnWritesFirstAndThenForWhoeverWroteMost) {
  for (const TenantTag owner : {kA, kB, kC}) shares_.NoteOwner(owner);
  shares_.NoteWrite(kA, kRecord);
  shares_.NoteWrite(kB, 3 * kRecord);
  shares_.NoteWrite(kC, kRecord);
  shares_.BeginReclaim();
  for (int i = 0; i < 3; ++i) shares_.NoteEviction(kA, kRecord);
  EXPECT_EQ(RoomOf(kA).evictions, 3U);
  EXPECT_EQ(RoomOf(kA).evictions_suffered, 2U);
  EXPECT_EQ(RoomOf(kB).evictions_caused, 2U);
  EXPECT_EQ(RoomOf(kC).evictions_caused, 0U);
  shares_.NoteOwnEviction(kA);
  EXPECT_EQ(RoomOf(kA).evictions, 4U);
  EXPECT_EQ(RoomOf(kA).evictions_suffered, 2U);
}

TEST_F(RoomSharesTest, ATenantThatIsGoneIsForgottenWithItsLastBlock) {
  shares_.NoteOwner(kB);
  Add(kB, 1);
  ASSERT_EQ(shares_.Set(std::vector<OwnerShare>{{kA, {}}}, index_), absl::OkStatus());
  EXPECT_FALSE(shares_.is_lone());
  index_.Erase(testing::NumberedKey(0));
  ASSERT_EQ(shares_.Set(std::vector<OwnerShare>{{kA, {}}}, index_), absl::OkStatus());
  EXPECT_TRUE(shares_.is_lone());
}

}  // namespace
}  // namespace kvtier
