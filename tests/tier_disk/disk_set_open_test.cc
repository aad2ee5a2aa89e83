// Tests what DiskSet does with the disks that it finds: opening, changed sets, duplicates.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

using testing::DiskKey;
using testing::DiskSetRig;

constexpr uint64_t kBlocks = 60;

class DiskSetOpenTest : public ::testing::Test {
 protected:
  ~DiskSetOpenTest() override {
    if (rig_.set != nullptr) rig_.set->Audit();
  }
  void PutAll() {
    for (uint64_t number = 0; number < kBlocks; ++number) {
      ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    }
  }
  uint64_t Served() {
    uint64_t served = 0;
    for (uint64_t number = 0; number < kBlocks; ++number) served += rig_.Get(number).ok() ? 1 : 0;
    return served;
  }
  // Returns how many disks hold the block, served or not.
  size_t Copies(uint64_t number) {
    size_t copies = 0;
    for (const auto& disk : rig_.disks) {
      copies += disk->tier != nullptr && disk->tier->Find(DiskKey(number)) ? 1 : 0;
    }
    return copies;
  }

  DiskSetRig rig_{{4, 4, 4}};
};

TEST_F(DiskSetOpenTest, TheRecoveryIsSummedAndPerDisk) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.total.recovered_blocks, kBlocks);
  uint64_t sum = 0;
  for (size_t disk = 0; disk < 3; ++disk) {
    const uint64_t found = rig_.recovery.disks[disk]->recovered_blocks;
    EXPECT_EQ(found, rig_.disks[disk]->tier->block_count());
    sum += found;
  }
  EXPECT_EQ(sum, kBlocks);
  EXPECT_EQ(Served(), kBlocks);
  EXPECT_EQ(rig_.known.size(), kBlocks);
  EXPECT_EQ(rig_.added, 0);  // Keys() announces them.
}

TEST_F(DiskSetOpenTest, AWalkFindsWhatIsThereAllTheTimeOnce) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  std::vector<BlockKey> found;
  bool more = true;
  uint64_t calls = 0;
  for (DiskWalk at; more; ++calls) {
    more = rig_.set->KeysFrom(&at, 4, &found);
    ASSERT_LE(found.size(), 4 * (calls + 1));
    if (calls < 5) {
      ASSERT_EQ(rig_.Erase(kBlocks - 1 - calls), absl::OkStatus());
    }
  }
  std::sort(found.begin(), found.end());
  EXPECT_TRUE(std::adjacent_find(found.begin(), found.end()) == found.end());
  for (uint64_t number = 0; number < kBlocks - 5; ++number) {
    EXPECT_TRUE(std::binary_search(found.begin(), found.end(), DiskKey(number))) << number;
  }
}

TEST_F(DiskSetOpenTest, DisksOpenAtTheSameTime) {
  for (const auto& disk : rig_.disks) disk->rows.faults.latency = absl::Seconds(1);
  const absl::Time started = rig_.time.Now();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_LT(rig_.time.Now() - started, absl::Seconds(3));  // Each disk takes a load and a commit.
}

TEST_F(DiskSetOpenTest, AfterADiskIsAddedAllBlocksAreStillHit) {
  ASSERT_EQ(rig_.Open({0, 1}), absl::OkStatus());
  PutAll();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(Served(), kBlocks);
  for (uint64_t number = 0; number < kBlocks; ++number) {
    // Each block is here already, though perhaps on another disk than its own.
    ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    EXPECT_EQ(Copies(number), 1);
  }
  ASSERT_EQ(rig_.Put(rig_.NumbersOf(2, 100)[99]), absl::OkStatus());
  EXPECT_EQ(rig_.disks[2]->tier->block_count(), 1);
}

TEST_F(DiskSetOpenTest, AfterADiskIsRemovedTheOthersBlocksAreStillHit) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  const uint64_t removed = rig_.disks[1]->tier->block_count();
  ASSERT_EQ(rig_.Open({2, 0}), absl::OkStatus());  // The order does not matter either.
  EXPECT_EQ(rig_.recovery.total.recovered_blocks, kBlocks - removed);
  EXPECT_EQ(Served(), kBlocks - removed);
  for (uint64_t number = 0; number < kBlocks; ++number) {
    const size_t expected = rig_.Preferred(number) == 1 ? 0 : 1;
    EXPECT_EQ(Copies(number), expected) << number;
  }
}

// A disk is taken out, its blocks are put again on other disks, and it comes back.
TEST_F(DiskSetOpenTest, OfABlockOnTwoDisksOneCopyIsErased) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  const uint64_t moved = rig_.disks[1]->tier->block_count();
  ASSERT_EQ(rig_.Open({0, 2}), absl::OkStatus());
  PutAll();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_duplicates, moved);
  EXPECT_EQ(rig_.recovery.total.recovered_blocks, kBlocks);
  rig_.set->Audit();
  EXPECT_EQ(rig_.set->block_count(), kBlocks);
  EXPECT_EQ(rig_.set->Keys().size(), kBlocks);
  rig_.Pass(absl::Seconds(1));
  for (uint64_t number = 0; number < kBlocks; ++number) EXPECT_EQ(Copies(number), 1) << number;
  EXPECT_EQ(Served(), kBlocks);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_duplicates, 0);
  EXPECT_EQ(Served(), kBlocks);
}

TEST_F(DiskSetOpenTest, ADiskThatCannotOpenLeavesTheOthers) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  const uint64_t lost = rig_.disks[1]->tier->block_count();
  rig_.disks[1]->rows.faults.load_fails = true;
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(rig_.recovery.disks[1].status()));
  EXPECT_EQ(Served(), kBlocks - lost);
  EXPECT_EQ(rig_.set->Statuses()[1].health, "not open: UNAVAILABLE: simulated manifest error");
  ASSERT_EQ(rig_.Put(rig_.NumbersOf(1, 1)[0]), absl::OkStatus());
}

// Once, the agent ended.
TEST_F(DiskSetOpenTest, WhenNoDiskOpensTheSetServesNone) {
  for (const auto& disk : rig_.disks) disk->rows.faults.load_fails = true;
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  for (size_t disk = 0; disk < 3; ++disk) {
    EXPECT_FALSE(rig_.set->serves(disk));
    EXPECT_TRUE(absl::IsUnavailable(rig_.recovery.disks[disk].status()));
  }
  EXPECT_TRUE(absl::IsUnavailable(rig_.Put(1)));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1)));
}

TEST_F(DiskSetOpenTest, ADiskThatOpensLateJoinsWithItsBlocksButNotWithDuplicates) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  const uint64_t late = rig_.disks[1]->tier->block_count();
  rig_.disks[1]->rows.faults.latency = absl::Minutes(1);
  const absl::Time started = rig_.time.Now();
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.time.Now() - started, rig_.open_timeout);
  EXPECT_TRUE(absl::IsDeadlineExceeded(rig_.recovery.disks[1].status()));
  EXPECT_EQ(Served(), kBlocks - late);
  // The block goes to another disk now.
  ASSERT_EQ(rig_.Put(rig_.NumbersOf(1, 1)[0]), absl::OkStatus());
  rig_.added = 0;
  rig_.Pass(absl::Minutes(5));
  EXPECT_EQ(rig_.known.size(), kBlocks);
  EXPECT_EQ(static_cast<uint64_t>(rig_.added), late - 1);
  EXPECT_EQ(Served(), kBlocks);
  EXPECT_EQ(rig_.set->block_count(), kBlocks);
}

TEST_F(DiskSetOpenTest, ADiskThatOpensLateServesWhatAQuarantinedDiskHasToo) {
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  PutAll();
  const uint64_t block = rig_.NumbersOf(1, 1)[0];
  rig_.disks[1]->rows.faults.latency = absl::Minutes(1);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  ASSERT_EQ(rig_.Put(block), absl::OkStatus());
  const size_t second = rig_.disks[0]->tier->Find(DiskKey(block)) ? 0 : 2;
  rig_.disks[second]->media.faults.read_error = 1;
  rig_.GetUntilQuarantined(second, rig_.NumbersOf(second, 10));
  ASSERT_TRUE(absl::IsNotFound(rig_.Get(block)));

  while (!rig_.set->serves(1)) rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.Get(block), absl::OkStatus());
  rig_.disks[second]->media.faults.read_error = 0;
  rig_.Pass(absl::Minutes(10));
  ASSERT_TRUE(rig_.healthy(second));
  EXPECT_EQ(Copies(block), 1u);
  EXPECT_EQ(Served(), kBlocks);
}

}  // namespace
}  // namespace kvtier
