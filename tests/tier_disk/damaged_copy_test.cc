// Tests puts that meet a damaged copy of their block on a disk: they replace it.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/tier_disk/disk_rig.h"
#include "tests/tier_disk/disk_set_rig.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskPayload;
using testing::DiskRig;
using testing::DiskSetRig;
using testing::MakeDiskBlock;

constexpr uint64_t kLength = 12000;

class DamagedCopyTest : public ::testing::Test {
 protected:
  DamagedCopyTest()
      : rig_(DiskForm::kSim, DiskRig::Shape{}, "",
             [this](const BlockKey& key) { dropped_.push_back(key); }) {
    EXPECT_EQ(rig_.Open(), absl::OkStatus());
  }
  ~DamagedCopyTest() override { rig_.tier->Audit(); }
  DiskTier& tier() { return *rig_.tier; }
  // Damages the first record.
  void Damage() { rig_.disk_media.FlipBit({SegmentId{0}, 0}, (kRecordHeaderBytes + 99) * 8); }

  std::vector<BlockKey> dropped_;
  DiskRig rig_;
};

// A save that met a damaged copy was told that the block is there, and the next reader found the
// same damage.
TEST_F(DamagedCopyTest, APutThatMeetsADamagedRecordReplacesIt) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  Damage();
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  EXPECT_EQ(tier().stats().verify_failures, 1);
  EXPECT_EQ(tier().stats().inserts, 2);
  EXPECT_EQ(dropped_, std::vector<BlockKey>{DiskKey(1)});
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

TEST_F(DamagedCopyTest, APutThatMeetsAnUnreadableRecordReplacesIt) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.disk_media.faults.read_error = 1;
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  rig_.disk_media.faults.read_error = 0;
  EXPECT_EQ(tier().stats().inserts, 2);
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

TEST_F(DamagedCopyTest, TwoPutsThatMeetADamagedRecordShareOneWrite) {
  ASSERT_EQ(rig_.Put(1, kLength), absl::OkStatus());
  Damage();
  PageBuffer slot = DiskPayload(1, kLength);
  const BlockMeta block = MakeDiskBlock(1, kLength);
  TaskScope scope(rig_.sim_executor.get());
  std::optional<absl::Status> first;
  std::optional<absl::Status> second;
  scope.Spawn(testing::Collect(tier().Put(block, slot.bytes()), &first));
  scope.Spawn(testing::Collect(tier().Put(block, slot.bytes()), &second));
  while (!first || !second) ASSERT_TRUE(rig_.sim_time.Step());
  EXPECT_EQ(*first, absl::OkStatus());
  EXPECT_EQ(*second, absl::OkStatus());
  EXPECT_EQ(tier().stats().inserts, 2);
  EXPECT_EQ(rig_.Get(1, kLength), absl::OkStatus());
}

class DamagedCopyInSetTest : public ::testing::Test {
 protected:
  DamagedCopyInSetTest() { EXPECT_EQ(rig_.Open(), absl::OkStatus()); }
  ~DamagedCopyInSetTest() override { rig_.set->Audit(); }
  DiskSet& set() { return *rig_.set; }

  DiskSetRig rig_{{4, 4, 4}};
};

TEST_F(DamagedCopyInSetTest, APutReplacesTheDamagedCopyOfWhicheverDiskHasIt) {
  // The first disk is out of service while the block is put, which then lies on another.
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 11);
  const uint64_t number = numbers[10];
  for (size_t i = 0; i < 10; ++i) ASSERT_EQ(rig_.Put(numbers[i]), absl::OkStatus());
  rig_.disks[0]->media.faults.read_error = 1;
  rig_.GetUntilQuarantined(0, numbers);
  ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  rig_.disks[0]->media.faults.read_error = 0;
  rig_.Pass(2 * kMaxProbeInterval);
  ASSERT_TRUE(rig_.healthy(0));
  const size_t holder = *set().HolderOf(DiskKey(number));
  ASSERT_NE(holder, 0u);
  rig_.disks[holder]->media.FlipBit({.segment = SegmentId{0}, .offset = 0},
                                    8 * (kRecordHeaderBytes + 99));
  ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_EQ(set().stats().verify_failures, 1);
  EXPECT_EQ(rig_.Get(number), absl::OkStatus());
  EXPECT_EQ(set().block_count(), 11);
}

}  // namespace
}  // namespace kvtier
