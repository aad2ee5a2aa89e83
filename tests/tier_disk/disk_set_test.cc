// Tests what DiskSet promises, over simulated disks.
#include "tier_disk/disk_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/tier_disk/disk_set_rig.h"

namespace kvtier {
namespace {

using testing::DiskKey;
using testing::DiskSetRig;
using ::testing::HasSubstr;

class DiskSetTest : public ::testing::Test {
 protected:
  DiskSetTest() { EXPECT_EQ(rig_.Open(), absl::OkStatus()); }
  ~DiskSetTest() override { rig_.set->Audit(); }

  DiskSet& set() { return *rig_.set; }
  DiskTier& tier(size_t disk) { return *rig_.disks[disk]->tier; }
  testing::SimDiskFaults& faults(size_t disk) { return rig_.disks[disk]->media.faults; }
  // Puts ten blocks that belong on each of the disks.
  void PutTenEach() {
    for (size_t disk = 0; disk < rig_.disks.size(); ++disk) {
      for (const uint64_t number : rig_.NumbersOf(disk, 10)) {
        ASSERT_EQ(rig_.Put(number), absl::OkStatus());
      }
    }
  }
  // Breaks disk 0: every read returns EIO.
  void BreakDisk0() {
    faults(0).read_error = 1;
    rig_.GetUntilQuarantined(0, rig_.NumbersOf(0, 10));
    ASSERT_FALSE(rig_.healthy(0));
    Settle();
  }
  void MendDisk0() {
    faults(0).read_error = 0;
    rig_.Pass(2 * kMaxProbeInterval);
    ASSERT_TRUE(rig_.healthy(0));
  }
  // Waits for announcements, which come a turn later.
  void Settle() { rig_.Pass(absl::Milliseconds(1)); }
  size_t Known(size_t disk) {
    size_t known = 0;
    for (const uint64_t number : rig_.NumbersOf(disk, 10))
      known += rig_.known.count(DiskKey(number));
    return known;
  }
  size_t Served(size_t disk) {
    size_t served = 0;
    for (const uint64_t number : rig_.NumbersOf(disk, 10)) served += rig_.Get(number).ok() ? 1 : 0;
    return served;
  }

  DiskSetRig rig_{{4, 4, 4}};
};

// Placement and lookups.

TEST_F(DiskSetTest, ABlockGoesWhereItBelongsAndReadsBack) {
  for (uint64_t number = 0; number < 30; ++number) {
    ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    EXPECT_TRUE(tier(rig_.Preferred(number)).Find(DiskKey(number)).has_value()) << number;
    EXPECT_EQ(rig_.Get(number), absl::OkStatus());
    EXPECT_EQ(set().Find(DiskKey(number))->key, DiskKey(number));
  }
  EXPECT_EQ(set().block_count(), 30);
  EXPECT_EQ(set().Keys().size(), 30);
}

TEST_F(DiskSetTest, SizesAndCountsAreSums) {
  PutTenEach();
  EXPECT_EQ(Served(0), 10);
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(100'000)));
  uint64_t used = 0;
  for (size_t disk = 0; disk < 3; ++disk) used += tier(disk).used_bytes();
  EXPECT_EQ(set().used_bytes(), used);
  EXPECT_EQ(set().capacity_bytes(), 3 * tier(0).capacity_bytes());
  EXPECT_EQ(set().stats().inserts, 30);
  EXPECT_EQ(set().stats().hits, 10);
  EXPECT_EQ(set().stats().misses, 1);
  EXPECT_EQ(set().stats().read_latency.count(), 10);
}

TEST_F(DiskSetTest, ABlockIsForTheFirstDiskInItsOrderThatServes) {
  PutTenEach();
  EXPECT_EQ(set().HolderOf(DiskKey(100'000)), std::nullopt);
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 11);
  for (const uint64_t number : numbers) EXPECT_EQ(set().DiskFor(DiskKey(number)), 0);
  EXPECT_EQ(set().HolderOf(DiskKey(numbers[0])), 0);
  BreakDisk0();
  EXPECT_EQ(set().HolderOf(DiskKey(numbers[0])), std::nullopt);
  const std::optional<size_t> second = set().DiskFor(DiskKey(numbers[10]));
  ASSERT_TRUE(second.has_value());
  EXPECT_NE(*second, 0);
  ASSERT_EQ(rig_.Put(numbers[10]), absl::OkStatus());
  EXPECT_EQ(set().HolderOf(DiskKey(numbers[10])), second);
}

TEST_F(DiskSetTest, WhatTheDisksWereGivenToWriteIsCounted) {
  PutTenEach();
  for (const DiskSet::DiskStatus& disk : set().Statuses()) {
    EXPECT_EQ(disk.written_bytes, disk.used_bytes);
    EXPECT_EQ(disk.reappended_bytes, 0);
  }
}

TEST_F(DiskSetTest, AnUnknownBlockIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1)));
  EXPECT_FALSE(set().Find(DiskKey(1)).has_value());
  EXPECT_EQ(rig_.Erase(1), absl::OkStatus());
}

TEST_F(DiskSetTest, PuttingABlockAgainWritesNothing) {
  ASSERT_EQ(rig_.Put(1), absl::OkStatus());
  ASSERT_EQ(rig_.Put(1), absl::OkStatus());
  EXPECT_EQ(set().stats().inserts, 1);
}

TEST_F(DiskSetTest, AnErasedBlockStaysAwayAfterReopening) {
  ASSERT_EQ(rig_.Put(1), absl::OkStatus());
  ASSERT_EQ(rig_.Erase(1), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1)));
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1)));
}

TEST_F(DiskSetTest, AFailingManifestFailsTheErase) {
  ASSERT_EQ(rig_.Put(1), absl::OkStatus());
  rig_.disks[rig_.Preferred(1)]->rows.faults.commit_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Erase(1)));
}

TEST_F(DiskSetTest, WhatATierReclaimsIsDropped) {
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 400);  // 4 segments hold some 250.
  for (const uint64_t number : numbers) ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_GT(rig_.dropped, 0);
  EXPECT_EQ(rig_.known.size(), set().block_count());
  for (const BlockKey& key : rig_.known) EXPECT_TRUE(set().Find(key).has_value());
}

// Full disks.

TEST_F(DiskSetTest, AFullDiskPassesItsBlocksOnAndIsHealthy) {
  faults(0).full = 1;
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 200);
  for (const uint64_t number : numbers) {
    ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    EXPECT_EQ(rig_.Get(number), absl::OkStatus());
  }
  EXPECT_EQ(tier(0).block_count(), 0);
  EXPECT_EQ(set().stats().declined, numbers.size());
  rig_.Pass(absl::Minutes(1));
  EXPECT_EQ(set().Statuses()[0].health, "healthy");
  EXPECT_TRUE(set().Statuses()[0].serving);
}

TEST_F(DiskSetTest, WhenAllDisksAreFullThePutIsDeclined) {
  for (size_t disk = 0; disk < 3; ++disk) faults(disk).full = 1;
  EXPECT_TRUE(absl::IsResourceExhausted(rig_.Put(1)));
  EXPECT_EQ(set().block_count(), 0);
}

TEST_F(DiskSetTest, AWriteErrorPassesTheBlockOn) {
  faults(0).write_error = 1;
  const uint64_t number = rig_.NumbersOf(0, 1)[0];
  ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_EQ(rig_.Get(number), absl::OkStatus());
}

// Quarantine by errors.

TEST_F(DiskSetTest, ErrorsQuarantineTheOneDiskAndTheOthersHitsGoOn) {
  PutTenEach();
  BreakDisk0();
  EXPECT_TRUE(rig_.healthy(1));
  EXPECT_TRUE(rig_.healthy(2));
  EXPECT_EQ(Served(0), 0);
  EXPECT_EQ(Served(1), 10);
  EXPECT_EQ(Served(2), 10);
  EXPECT_EQ(set().block_count(), 20);
  EXPECT_EQ(set().capacity_bytes(), 2 * tier(1).capacity_bytes());
  EXPECT_EQ(set().used_bytes(), tier(1).used_bytes() + tier(2).used_bytes());
  EXPECT_THAT(set().Statuses()[0].health, HasSubstr("16 of the last 64 I/Os failed"));
  EXPECT_FALSE(set().Statuses()[0].serving);
  EXPECT_EQ(set().Statuses()[0].block_count, 10);
}

TEST_F(DiskSetTest, BlocksOfAQuarantinedDiskAreDroppedAndAddedWhenItIsBack) {
  PutTenEach();
  BreakDisk0();
  EXPECT_EQ(Known(0), 0);
  EXPECT_EQ(Known(1) + Known(2), 20);
  EXPECT_EQ(rig_.dropped, 10);
  rig_.added = 0;
  MendDisk0();
  EXPECT_EQ(Known(0), 10);
  EXPECT_EQ(rig_.added, 10);
  EXPECT_EQ(Served(0) + Served(1) + Served(2), 30);
  EXPECT_EQ(set().Statuses()[0].quarantines, 1);
}

TEST_F(DiskSetTest, EachChangeSaysWhoseTheBlockIs) {
  PutTenEach();
  BreakDisk0();
  EXPECT_TRUE(set().settled());
  MendDisk0();
  EXPECT_EQ(rig_.owners.size(), 30);
  for (const auto& [key, owner] : rig_.owners) {
    EXPECT_EQ(owner, TenantTagOf(kNoTenant));
    EXPECT_EQ(set().OwnerOf(key), owner);
  }
}

TEST_F(DiskSetTest, AMissOfAQuarantinedDiskTouchesNoDisk) {
  PutTenEach();
  BreakDisk0();
  const absl::Time now = rig_.time.Now();
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(rig_.NumbersOf(0, 1)[0])));
  EXPECT_EQ(rig_.time.Now(), now);
}

TEST_F(DiskSetTest, BlocksOfAQuarantinedDiskGoToTheNext) {
  PutTenEach();
  BreakDisk0();
  const uint64_t number = rig_.NumbersOf(0, 11)[10];
  ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_FALSE(tier(0).Find(DiskKey(number)).has_value());
  EXPECT_EQ(rig_.Get(number), absl::OkStatus());
}

TEST_F(DiskSetTest, ABlockPutElsewhereMeanwhileLeavesTheDiskThatComesBack) {
  PutTenEach();
  BreakDisk0();
  for (const uint64_t number : rig_.NumbersOf(0, 4)) ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_EQ(set().block_count(), 24);
  rig_.added = 0;
  MendDisk0();
  EXPECT_EQ(tier(0).block_count(), 6);
  EXPECT_EQ(rig_.added, 6);
  EXPECT_EQ(set().block_count(), 30);
  EXPECT_EQ(Served(0), 10);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_EQ(rig_.recovery.dropped_duplicates, 0);
  EXPECT_EQ(rig_.recovery.total.recovered_blocks, 30);
}

TEST_F(DiskSetTest, ABlockErasedMeanwhileDoesNotComeBack) {
  PutTenEach();
  BreakDisk0();
  const uint64_t number = rig_.NumbersOf(0, 1)[0];
  ASSERT_EQ(rig_.Erase(number), absl::OkStatus());
  MendDisk0();
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(number)));
  EXPECT_EQ(Known(0), 9);
  ASSERT_EQ(rig_.Open(), absl::OkStatus());
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(number)));
  // The block may be put again, to the disk that had it.
  ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  EXPECT_TRUE(tier(0).Find(DiskKey(number)).has_value());
}

TEST_F(DiskSetTest, ABlockIsPutAnewWhereItsErasedCopyStillLies) {
  PutTenEach();
  BreakDisk0();
  for (const uint64_t number : rig_.NumbersOf(0, 10)) {
    ASSERT_EQ(rig_.Erase(number), absl::OkStatus());
  }
  rig_.disks[0]->rows.faults.latency = absl::Hours(1);  // Makes the erases slow.
  MendDisk0();
  ASSERT_TRUE(set().Statuses()[0].serving);
  ASSERT_GT(tier(0).block_count(), 8);
  for (const uint64_t number : rig_.NumbersOf(0, 10)) {
    EXPECT_TRUE(absl::IsNotFound(rig_.Get(number)));
    ASSERT_EQ(rig_.Put(number), absl::OkStatus());
    EXPECT_EQ(rig_.Get(number), absl::OkStatus());
  }
}

TEST_F(DiskSetTest, ASecondQuarantineTakesNothingBackThatIsElsewhere) {
  PutTenEach();
  BreakDisk0();
  for (const uint64_t number : rig_.NumbersOf(0, 4)) ASSERT_EQ(rig_.Put(number), absl::OkStatus());
  rig_.disks[0]->rows.faults.latency = absl::Hours(1);  // Keeps the hidden copies.
  MendDisk0();
  ASSERT_GT(tier(0).block_count(), 8);
  faults(0).read_error = 1;
  rig_.GetUntilQuarantined(0, {rig_.NumbersOf(0, 10)[9]});
  Settle();
  EXPECT_EQ(Known(0), 4);
  EXPECT_EQ(Served(0), 4);
}

TEST_F(DiskSetTest, WithoutADiskInServicePutsFailAndGetsMiss) {
  PutTenEach();
  for (size_t disk = 0; disk < 3; ++disk) {
    faults(disk).read_error = 1;
    rig_.GetUntilQuarantined(disk, rig_.NumbersOf(disk, 10));
  }
  EXPECT_TRUE(absl::IsUnavailable(rig_.Put(1000)));
  EXPECT_TRUE(absl::IsNotFound(rig_.Get(1)));
  EXPECT_EQ(set().block_count(), 0);
  EXPECT_EQ(set().capacity_bytes(), 0);
  EXPECT_TRUE(set().Keys().empty());
}

TEST_F(DiskSetTest, ADiskThatFailsOneReadIn32StaysInService) {
  PutTenEach();
  faults(0).read_error = 1.0 / 32;
  int failed = 0;
  for (int i = 0; i < 200; ++i) failed += static_cast<int>(10 - Served(0));
  EXPECT_GT(failed, 10);
  EXPECT_TRUE(rig_.healthy(0));
  EXPECT_EQ(set().Statuses()[0].quarantines, 0);
}

// Stalls.

TEST_F(DiskSetTest, OneDiskHangsForEverAndNobodyElseWaits) {
  PutTenEach();
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 12);
  rig_.disks[0]->sim->Stall();
  const absl::Duration timeout = absl::Milliseconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(rig_.By(timeout, rig_.GetTask(numbers[0]))));
  EXPECT_TRUE(absl::IsDeadlineExceeded(rig_.By(timeout, rig_.PutTask(numbers[10]))));
  EXPECT_EQ(Served(1), 10);
  EXPECT_EQ(Served(2), 10);
  rig_.Pass(kSilenceLimit + kWatchInterval);
  EXPECT_FALSE(rig_.healthy(0));
  EXPECT_EQ(Known(0), 0);
  EXPECT_EQ(set().stuck().puts, 1);
  EXPECT_EQ(set().stuck().gets, 1);
  // No call goes to the disk any more, so none waits, not even one for the block of the stuck put.
  EXPECT_TRUE(absl::IsNotFound(rig_.By(timeout, rig_.GetTask(numbers[0]))));
  EXPECT_EQ(rig_.By(timeout, rig_.PutTask(numbers[11])), absl::OkStatus());
  EXPECT_EQ(rig_.By(timeout, rig_.PutTask(numbers[10])), absl::OkStatus());
  EXPECT_EQ(rig_.By(timeout, rig_.GetTask(numbers[10])), absl::OkStatus());
  EXPECT_EQ(rig_.By(timeout, rig_.EraseTask(numbers[1])), absl::OkStatus());
  rig_.Pass(absl::Hours(1));
  EXPECT_FALSE(rig_.healthy(0));
  EXPECT_EQ(Served(1) + Served(2), 20);
}

TEST_F(DiskSetTest, AStallThatEndsBringsAllBlocksBackOnce) {
  PutTenEach();
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 11);
  rig_.disks[0]->sim->Stall();
  const absl::Duration timeout = absl::Milliseconds(100);
  EXPECT_TRUE(absl::IsDeadlineExceeded(rig_.By(timeout, rig_.PutTask(numbers[10]))));
  rig_.Pass(absl::Minutes(1));
  ASSERT_EQ(rig_.Put(numbers[10]), absl::OkStatus());  // The block goes to another disk.
  rig_.disks[0]->sim->Resume();  // The first put ends well, on a quarantined disk.
  rig_.Pass(absl::Seconds(5));
  EXPECT_TRUE(rig_.healthy(0));
  EXPECT_EQ(Served(0) + Served(1) + Served(2), 30);
  EXPECT_EQ(rig_.Get(numbers[10]), absl::OkStatus());
  EXPECT_EQ(set().block_count(), 31);
  EXPECT_EQ(tier(0).block_count(), 10);
  EXPECT_EQ(set().stuck().puts, 0);
}

TEST_F(DiskSetTest, APutThatEndsOnAQuarantinedDiskGoesToTheNext) {
  PutTenEach();
  const uint64_t number = rig_.NumbersOf(0, 11)[10];
  rig_.disks[0]->sim->Stall();
  const absl::Duration timeout = absl::Seconds(20);
  EXPECT_TRUE(absl::IsDeadlineExceeded(rig_.By(timeout, rig_.PutTask(number))));
  rig_.disks[0]->sim->Resume();
  rig_.Pass(absl::Milliseconds(100));  // Too soon for a probe.
  EXPECT_FALSE(rig_.healthy(0));
  EXPECT_EQ(rig_.known.count(DiskKey(number)), 1);
  EXPECT_EQ(rig_.Get(number), absl::OkStatus());
}

TEST_F(DiskSetTest, APutThatEndsOnAQuarantinedDiskWithNoOtherFailsAndLeavesNothing) {
  DiskSetRig one({4});
  ASSERT_EQ(one.Open(), absl::OkStatus());
  one.disks[0]->sim->Stall();
  std::optional<absl::Status> put;
  one.scope->Spawn(testing::Collect(one.PutTask(1), &put));
  one.Pass(absl::Seconds(20));
  EXPECT_FALSE(put.has_value());
  one.disks[0]->sim->Resume();
  one.Pass(absl::Minutes(1));
  ASSERT_TRUE(put.has_value());
  EXPECT_TRUE(absl::IsUnavailable(*put));
  EXPECT_TRUE(one.healthy(0));
  EXPECT_EQ(one.disks[0]->tier->block_count(), 0);
  EXPECT_EQ(one.Put(1), absl::OkStatus());
}

TEST_F(DiskSetTest, AReadErrorOfAHealthyDiskIsTheGetsError) {
  PutTenEach();
  faults(0).read_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(rig_.Get(rig_.NumbersOf(0, 1)[0])));
  faults(0).read_error = 0;
  EXPECT_EQ(Served(0), 10);
}

// Latency.

TEST_F(DiskSetTest, ADiskAHundredTimesAsSlowIsQuarantinedUntilItIsNot) {
  for (size_t disk = 0; disk < 3; ++disk) faults(disk).latency = absl::Milliseconds(2);
  PutTenEach();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Served(0) + Served(1), 20);
  faults(0).latency *= 100;
  EXPECT_EQ(Served(0), 10);  // Slow reads are still right.
  rig_.GetUntilQuarantined(0, rig_.NumbersOf(0, 10));
  Settle();
  EXPECT_THAT(set().Statuses()[0].health, HasSubstr("17 of the last 32 I/Os were slow"));
  EXPECT_EQ(Served(0), 0);
  EXPECT_EQ(Served(1), 10);
  faults(0).latency /= 100;
  rig_.Pass(absl::Minutes(1));
  EXPECT_EQ(Served(0), 10);
}

// Announcements.

TEST_F(DiskSetTest, ABigDiskIsAnnouncedInManyTurns) {
  const std::vector<uint64_t> numbers = rig_.NumbersOf(0, 3 * kAnnouncedPerTurn);
  DiskSetRig big({16});
  ASSERT_EQ(big.Open(), absl::OkStatus());
  for (const uint64_t number : numbers) ASSERT_EQ(big.Put(number), absl::OkStatus());
  big.disks[0]->media.faults.read_error = 1;
  big.GetUntilQuarantined(0, numbers);
  int turns = 0;
  for (int before = 0; big.dropped < static_cast<int>(numbers.size()); before = big.dropped) {
    ASSERT_TRUE(big.time.Step());
    ASSERT_LE(big.dropped - before, static_cast<int>(kAnnouncedPerTurn));
    turns += big.dropped > before ? 1 : 0;
  }
  EXPECT_EQ(turns, 3);
  EXPECT_TRUE(big.known.empty());
  big.disks[0]->media.faults.read_error = 0;
  big.Pass(absl::Minutes(1));
  EXPECT_EQ(big.known.size(), numbers.size());
}

}  // namespace
}  // namespace kvtier
