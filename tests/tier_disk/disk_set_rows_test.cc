// Tests what becomes of a disk whose manifest loses its files, fails or has no room.
#include <gtest/gtest.h>

#include <vector>

#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

class DiskSetRowsTest : public ::testing::Test {
 protected:
  DiskSetRowsTest() { EXPECT_EQ(rig_.Open(), absl::OkStatus()); }
  ~DiskSetRowsTest() override { rig_.set->Audit(); }

  DiskSet& set() { return *rig_.set; }
  DiskTier& tier(size_t disk) { return *rig_.disks[disk]->tier; }

  testing::DiskSetRig rig_{{4, 4, 4}};
};

// Once, puts were acknowledged on a disk whose directory had been moved away, and lost at the next
// start.
TEST_F(DiskSetRowsTest, ADiskWhoseFilesAreGoneLeavesTheServiceUntilTheRestart) {
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 3);
  ASSERT_EQ(rig_.Put(numbers[0]), absl::OkStatus());
  EXPECT_EQ(rig_.Run(set().Confirm(0)), absl::OkStatus());
  rig_.disks[0]->rows.faults.gone = true;
  ASSERT_EQ(rig_.Put(numbers[1]), absl::OkStatus()) << "another disk takes it";
  EXPECT_EQ(tier(0).block_count(), 1);
  EXPECT_FALSE(set().serves(0));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(numbers[0])));
  rig_.disks[0]->rows.faults.gone = false;
  rig_.Pass(absl::Minutes(30));
  EXPECT_FALSE(set().serves(0)) << "no probe brings it back";
  EXPECT_EQ(set().Statuses()[0].health,
            "not used until the agent restarts: /disk/manifest is gone");
  EXPECT_EQ(set().Statuses()[0].quarantines, 1);
  EXPECT_TRUE(absl::IsUnavailable(rig_.Run(set().Confirm(0))));
}

TEST_F(DiskSetRowsTest, ADiskThatCannotConfirmLeavesTheServiceWithoutAPut) {
  ASSERT_EQ(rig_.Put(rig_.NumbersOf(0, 1)[0]), absl::OkStatus());
  rig_.disks[0]->rows.faults.gone = true;
  EXPECT_TRUE(absl::IsNotFound(rig_.Run(set().Confirm(0))));
  EXPECT_FALSE(set().serves(0));
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.known.size(), 0u) << "its blocks are withdrawn";
}

// Once, a disk whose manifest took no row any more was healthy for ever.
TEST_F(DiskSetRowsTest, ADiskWhoseManifestFailsIsQuarantined) {
  rig_.disks[0]->rows.faults.commit_error = 1;
  for (const uint64_t number : rig_.NumbersOf(0, 2 * kErrorsTooMany)) {
    EXPECT_EQ(rig_.Put(number), absl::OkStatus()) << "the next disk takes it";
  }
  EXPECT_FALSE(rig_.healthy(0));
}

// Once, nothing said that a disk whose manifest had no room stored nothing.
TEST_F(DiskSetRowsTest, ADiskWithoutRoomForRowsServesAndSaysThatItTakesNothing) {
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 2);
  ASSERT_EQ(rig_.Put(numbers[0]), absl::OkStatus());
  rig_.disks[0]->rows.faults.full = true;
  ASSERT_EQ(rig_.Put(numbers[1]), absl::OkStatus());
  EXPECT_EQ(tier(0).block_count(), 1);
  EXPECT_EQ(rig_.Get(numbers[0]), absl::OkStatus());
  EXPECT_EQ(set().Statuses()[0].health, "takes no blocks: the manifest has no room");
  EXPECT_TRUE(set().Statuses()[0].serving);
  rig_.disks[0]->rows.faults.full = false;
  EXPECT_EQ(set().Statuses()[0].health, "healthy");
}

}  // namespace
}  // namespace kvtier
