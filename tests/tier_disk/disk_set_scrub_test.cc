// Tests the scrub of several disks: each has its own, from when it opens.
#include <gtest/gtest.h>

#include <vector>

#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

using testing::DiskSetRig;

constexpr uint64_t kBlocks = 60;
constexpr uint64_t kRate = uint64_t{1} << 30;
constexpr absl::Duration kLongEnough = absl::Minutes(10);

class DiskSetScrubTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(rig_.Open(), absl::OkStatus());
    for (uint64_t number = 0; number < kBlocks; ++number) {
      ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    }
  }
  // Returns how many records the requested passes have verified.
  uint64_t Verified() {
    uint64_t records = 0;
    for (const DiskSet::DiskStatus& status : rig_.set->Statuses()) {
      if (status.scrub.pass.asked) records += status.scrub.pass.counts.records;
    }
    return records;
  }

  DiskSetRig rig_{{4, 4, 4}};
};

TEST_F(DiskSetScrubTest, APassThatWasAskedForSeesEveryDisk) {
  rig_.set->StartScrub(0);
  rig_.Pass(absl::Seconds(1));
  for (const absl::Status& began : rig_.set->VerifyAll(kRate)) EXPECT_EQ(began, absl::OkStatus());
  for (const absl::Status& again : rig_.set->VerifyAll(kRate)) {
    EXPECT_TRUE(absl::IsAlreadyExists(again));
  }
  rig_.Pass(kLongEnough);
  EXPECT_EQ(Verified(), kBlocks);
  rig_.set->StopScrub();
  rig_.Pass(absl::Seconds(1));
  for (const absl::Status& stopped : rig_.set->VerifyAll(kRate)) {
    EXPECT_TRUE(absl::IsFailedPrecondition(stopped));
  }
}

TEST_F(DiskSetScrubTest, ADiskThatOpensLateIsScrubbedFromThenOn) {
  rig_.disks[1]->rows.faults.latency = absl::Minutes(1);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  rig_.set->StartScrub(0);
  rig_.Pass(absl::Seconds(1));
  std::vector<absl::Status> began = rig_.set->VerifyAll(kRate);
  EXPECT_EQ(began[0], absl::OkStatus());
  EXPECT_TRUE(absl::IsFailedPrecondition(began[1]));
  rig_.Pass(kLongEnough);
  began = rig_.set->VerifyAll(kRate);
  EXPECT_EQ(began[1], absl::OkStatus());
  rig_.Pass(kLongEnough);
  EXPECT_EQ(Verified(), kBlocks);
}

TEST_F(DiskSetScrubTest, ADiskThatCannotOpenHasNoScrub) {
  rig_.disks[2]->rows.faults.load_fails = true;
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  rig_.set->StartScrub(kRate);
  rig_.Pass(kLongEnough);
  const std::vector<DiskSet::DiskStatus> statuses = rig_.set->Statuses();
  EXPECT_GT(statuses[0].scrub.passes, 0);
  EXPECT_EQ(statuses[2].scrub.pass.number, 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(rig_.set->VerifyAll(kRate)[2]));
}

}  // namespace
}  // namespace kvtier
