// Tests shares of tenants over several disks.
#include <gtest/gtest.h>

#include <vector>

#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

using testing::DiskSetRig;

constexpr TenantTag kA{1};
constexpr TenantTag kB{2};
constexpr uint64_t kMiB = uint64_t{1} << 20;

// Two disks of 2 and 6 MiB beside their reserves; half of them is divided.
class DiskSetSharesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(rig_.Open(), absl::OkStatus()); }
  static TenantRoom RoomOf(TenantTag owner, const std::vector<TenantRoom>& rooms) {
    for (const TenantRoom& room : rooms) {
      if (room.owner == owner) return room;
    }
    ADD_FAILURE() << "no such tenant";
    return {};
  }

  DiskSetRig rig_{{3, 7}};
};

TEST_F(DiskSetSharesTest, EachDiskHasItsPartByCapacity) {
  const std::vector<OwnerShare> shares = {
      {kA, TierShare{.guaranteed = 2 * kMiB, .maximum = 4 * kMiB, .weight = 5}}, {kB, {}}};
  ASSERT_EQ(rig_.set->SetShares(shares), absl::OkStatus());
  EXPECT_EQ(rig_.set->divided_bytes(), 4 * kMiB);
  const TenantRoom small = RoomOf(kA, rig_.disks[0]->tier->Tenants());
  EXPECT_EQ(small.guaranteed_bytes, kMiB / 2);
  EXPECT_EQ(small.maximum_bytes, kMiB);
  const TenantRoom all = RoomOf(kA, rig_.set->Tenants());
  EXPECT_EQ(all.guaranteed_bytes, 2 * kMiB);
  EXPECT_EQ(all.maximum_bytes, 4 * kMiB);
  const TenantRoom other = RoomOf(kB, rig_.set->Tenants());
  EXPECT_EQ(other.guaranteed_bytes, 2 * kMiB);
  EXPECT_EQ(other.maximum_bytes, UINT64_MAX);
}

TEST_F(DiskSetSharesTest, GuaranteesBeyondHalfOfAllDisksChangeNothing) {
  ASSERT_EQ(rig_.set->SetShares(std::vector<OwnerShare>{{kA, {}}}), absl::OkStatus());
  const std::vector<OwnerShare> shares = {{kA, TierShare{.guaranteed = 4 * kMiB}},
                                          {kB, TierShare{.guaranteed = 1}}};
  const absl::Status set = rig_.set->SetShares(shares);
  EXPECT_TRUE(absl::IsInvalidArgument(set)) << set;
  EXPECT_EQ(rig_.set->Tenants().size(), 1U);
  EXPECT_EQ(RoomOf(kA, rig_.set->Tenants()).guaranteed_bytes, 4 * kMiB);
}

TEST_F(DiskSetSharesTest, WhatATenantHasOfAllDisksIsSummed) {
  ASSERT_EQ(rig_.set->SetShares(std::vector<OwnerShare>{{TenantTagOf(kNoTenant), {}}}),
            absl::OkStatus());
  for (uint64_t number = 1; number <= 50; ++number) {
    ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  }
  EXPECT_EQ(RoomOf(TenantTagOf(kNoTenant), rig_.set->Tenants()).used_bytes, rig_.set->used_bytes());
}

}  // namespace
}  // namespace kvtier
