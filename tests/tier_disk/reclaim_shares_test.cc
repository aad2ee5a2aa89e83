// Tests what reclaim takes from several tenants. room_shares_model_test tests the law itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "tests/tier_disk/disk_rig.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;

constexpr uint64_t kLength = 60000;  // Sixteen blocks to a segment.
constexpr uint64_t kSegments = 8;
const uint64_t kRecord = RecordBytes(kLength);
constexpr char kA[] = "a";
constexpr char kB[] = "b";

class ReclaimSharesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    Name({}, {});
  }
  ~ReclaimSharesTest() override { rig_.tier->Audit(); }
  void Name(std::optional<TierShare> a, std::optional<TierShare> b) {
    const std::vector<OwnerShare> shares = {{TenantTagOf(kA), a}, {TenantTagOf(kB), b}};
    ASSERT_EQ(rig_.tier->SetShares(shares), absl::OkStatus());
  }
  // Puts blocks `from` to `to`, without parents.
  void Put(const std::string& tenant, uint64_t from, uint64_t to) {
    for (uint64_t i = from; i <= to; ++i) {
      ASSERT_EQ(rig_.Put(i, kLength, {}, tenant), absl::OkStatus()) << i;
    }
  }
  // Puts blocks 1 to 28 of A, each followed by three of B.
  void PutMixed() {
    for (uint64_t i = 1; i <= 28; ++i) {
      Put(kA, i, i);
      Put(kB, 100 + 3 * i, 102 + 3 * i);
    }
  }
  uint64_t CountOf(uint64_t from, uint64_t to) const {
    uint64_t count = 0;
    for (uint64_t i = from; i <= to; ++i) count += rig_.tier->Contains(DiskKey(i)) ? 1 : 0;
    return count;
  }
  TenantRoom RoomOf(const std::string& tenant) const {
    const std::vector<TenantRoom> rooms = rig_.tier->Tenants();
    return *std::ranges::find(rooms, TenantTagOf(tenant), &TenantRoom::owner);
  }

  DiskRig rig_{DiskForm::kSim, {.segments = kSegments}, "", [](const BlockKey&) {}};
};

// The disk's seven segments have room for 112 blocks; 56 of them are divided.
TEST_F(ReclaimSharesTest, AFloodOfOneTenantTakesNothingOfWhatAnotherIsGuaranteed) {
  Put(kA, 1, 28);
  Put(kB, 1000, 2000);
  EXPECT_EQ(CountOf(1, 28), 28U);
  EXPECT_EQ(RoomOf(kA).evictions, 0U);
  EXPECT_EQ(RoomOf(kA).evictions_caused, 0U);
  EXPECT_GT(RoomOf(kB).evictions, 800U);
  EXPECT_EQ(RoomOf(kB).evictions_suffered, 0U);
}

// At most half of a segment is written again for each one that is freed.
TEST_F(ReclaimSharesTest, WhatMustStayIsWrittenAgainOncePerByteAtMost) {
  PutMixed();
  Put(kB, 1000, 2000);
  EXPECT_EQ(CountOf(1, 28), 28U);
  const DiskTier::Reclaimed& reclaimed = rig_.tier->reclaimed();
  EXPECT_LE(reclaimed.reappended_bytes, reclaimed.segments * (uint64_t{1} << 20) / 2);
  EXPECT_GT(reclaimed.reappended_bytes, 0U);
}

TEST_F(ReclaimSharesTest, RoomThatWasLentIsTakenBack) {
  Put(kB, 1000, 1120);
  EXPECT_GT(RoomOf(kB).used_bytes, 90 * kRecord);
  Put(kA, 1, 28);
  Put(kB, 1200, 1250);
  EXPECT_EQ(CountOf(1, 28), 28U);
  EXPECT_GT(RoomOf(kB).evictions_suffered, 0U);
  EXPECT_EQ(RoomOf(kB).evictions_suffered, RoomOf(kA).evictions_caused);
}

// B has no guarantee and a tenth of A's weight, and its first blocks are the oldest.
TEST_F(ReclaimSharesTest, WhoeverIsFurthestOverItsFairSharePays) {
  Name(TierShare{.weight = 1}, TierShare{.weight = 10});
  Put(kA, 1, 60);
  Put(kB, 1000, 1049);
  Put(kA, 100, 200);
  EXPECT_EQ(CountOf(1000, 1049), 50U);
  EXPECT_EQ(RoomOf(kB).evictions, 0U);
  EXPECT_EQ(RoomOf(kA).evictions_suffered, 0U);
}

TEST_F(ReclaimSharesTest, AGuaranteeHoldsAfterARestart) {
  Put(kA, 1, 28);
  Put(kB, 1000, 1100);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(RoomOf(kA).used_bytes, 28 * kRecord);
  Name({}, {});
  Put(kB, 2000, 2500);
  EXPECT_EQ(CountOf(1, 28), 28U);
}

// The blocks are one chain over all segments. Dropping its head would drop all of it, so reclaim
// drops blocks from its end.
TEST_F(ReclaimSharesTest, AChainIsTakenFromItsEndWhereAllOfItIsTooMuch) {
  Name(TierShare{.guaranteed = 40 * kRecord}, TierShare{.guaranteed = 16 * kRecord});
  std::optional<uint64_t> parent;
  for (uint64_t i = 1; i <= 100; ++i) {
    ASSERT_EQ(rig_.Put(i, kLength, parent, kA), absl::OkStatus());
    parent = i;
  }
  Put(kB, 1000, 1040);
  const uint64_t left = CountOf(1, 100);
  EXPECT_GE(left, 40U);
  EXPECT_EQ(CountOf(1, left), left) << "a block was dropped before what continues it";
}

TEST_F(ReclaimSharesTest, ATenantAtItsMaximumGivesUpItsOwnOldestBlocks) {
  Name(TierShare{.maximum = 20 * kRecord}, {});
  Put(kB, 1000, 1010);
  Put(kA, 1, 200);
  EXPECT_LE(RoomOf(kA).used_bytes, 20 * kRecord);
  EXPECT_TRUE(rig_.tier->Contains(DiskKey(200)));
  EXPECT_FALSE(rig_.tier->Contains(DiskKey(1)));
  EXPECT_EQ(CountOf(1000, 1010), 11U);
  EXPECT_EQ(RoomOf(kA).evictions_suffered, 0U);
}

// The tenant's few blocks are in the open segment all the time.
TEST_F(ReclaimSharesTest, ATenantWhoseMaximumIsLessThanASegmentStillTurnsItOver) {
  Name(TierShare{.maximum = 3 * kRecord}, {});
  Put(kA, 1, 40);
  EXPECT_EQ(CountOf(39, 40), 2U);
  EXPECT_EQ(CountOf(1, 37), 0U);
}

TEST_F(ReclaimSharesTest, ABlockLargerThanItsTenantsMaximumIsDeclined) {
  Name(TierShare{.maximum = kRecord - 1}, {});
  const absl::Status put = rig_.Put(1, kLength, {}, kA);
  EXPECT_TRUE(absl::IsResourceExhausted(put)) << put;
  EXPECT_NE(put.message().find("maximum of"), std::string::npos) << put;
  EXPECT_EQ(rig_.tier->stats().declined, 1U);
}

// With many puts at a time, those that wait for a reclaim do not use up the room for its copies.
TEST_F(ReclaimSharesTest, PutsLeaveTheReserveToWhatMustStay) {
  PutMixed();
  uint64_t written = 0;
  {
    TaskScope scope(rig_.sim_executor.get());
    const auto put = [&](uint64_t number) -> Task<void> {
      PageBuffer slot = testing::DiskPayload(number, kLength);
      const BlockMeta block = testing::MakeDiskBlock(number, kLength);
      const absl::Status status = co_await rig_.tier->Put(block, slot.bytes(), kB);
      // If too much must stay of the segments that can be reclaimed now, reclaim waits for the
      // writes in flight.
      EXPECT_EQ(status.message().find("within the shares"), std::string::npos) << number;
      written += status.ok() ? 1 : 0;
    };
    for (uint64_t i = 0; i < 600; ++i) {
      scope.Spawn(put(1000 + i));
      for (uint64_t steps = i % 40; steps > 0; --steps) rig_.sim_time.Step();
      ASSERT_EQ(CountOf(1, 28), 28U) << i;
    }
    while (rig_.sim_time.Step()) {
    }
  }
  EXPECT_EQ(CountOf(1, 28), 28U);
  EXPECT_GT(written, 400U);
}

}  // namespace
}  // namespace kvtier
