// Tests which blocks are offered to the disks and when, by one agent in virtual time.
#include "agent/disk/offload.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"
#include "tier_disk/log/record.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;

const uint64_t kRecord = RecordBytes(kRigBlockBytes);
// Budget of one write of the whole disk a day. The rig's disk has 63 segments of 64 KiB, so one
// hour's part is 21 records.
constexpr double kOneADay = 1;
constexpr uint64_t kHour = 21;
constexpr DiskWriteOptions kLazy = {.policy = WritePolicy::kAll,
                                    .moment = WriteMoment::kAtEviction};

size_t OnDisk(const AgentRig& rig) { return rig.agent->disks().set()->block_count(); }
const OffloadStats& StatsOf(const AgentRig& rig) { return rig.agent->stats().offload; }

TEST(OffloadAtCommitTest, ByDefaultEveryBlockIsWritten) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 8), 8u);
  EXPECT_EQ(OnDisk(rig), 8u);
  EXPECT_EQ(StatsOf(rig).written, 8u);
  EXPECT_FALSE(rig.agent->disks().admission()->BudgetLeft(0, rig.executor.Now()).has_value());
}

TEST(OffloadAtCommitTest, BeyondTheBudgetBlocksAreDeclinedCountedAndServed) {
  AgentRig rig({.slots = 64,
                .disk_writes = {.policy = WritePolicy::kAll, .drive_writes_per_day = kOneADay}});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, kHour + 9), kHour + 9);
  EXPECT_EQ(OnDisk(rig), kHour);
  EXPECT_EQ(StatsOf(rig).over_budget, 9u);
  EXPECT_EQ(rig.Hits(rig.session, 1, kHour + 9), kHour + 9);
  const auto left = rig.agent->disks().admission()->BudgetLeft(0, rig.executor.Now());
  ASSERT_TRUE(left.has_value());
  EXPECT_LT(left->bytes, kRecord);
  EXPECT_EQ(left->bytes_per_day, rig.agent->disks().set()->capacity_bytes());
}

TEST(OffloadAtCommitTest, ABlockThatWasRefusedIsOfferedAgainAtEachHit) {
  AgentRig rig({.slots = 64,
                .disk_writes = {.policy = WritePolicy::kAll, .drive_writes_per_day = kOneADay}});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, kHour + 9), kHour + 9);
  rig.Pass(absl::Hours(1));
  EXPECT_EQ(OnDisk(rig), kHour) << "nobody asked";
  ASSERT_EQ(rig.Hits(rig.session, 1, kHour + 5), kHour + 5);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), kHour + 5);
  EXPECT_EQ(StatsOf(rig).over_budget, 9u);
}

TEST(OffloadAtCommitTest, SecondTouchWritesAtTheFirstHit) {
  AgentRig rig({.disk_writes = {.policy = WritePolicy::kSecondTouch}});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 4), 4u);
  EXPECT_EQ(OnDisk(rig), 0u);
  EXPECT_EQ(StatsOf(rig).not_worth_it, 4u);
  ASSERT_EQ(rig.Hits(rig.session, 1, 2), 2u);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), 2u);
  EXPECT_EQ(StatsOf(rig).not_worth_it, 4u);
}

TEST(OffloadAtCommitTest, HitsAreCountedFromWhenABlockCameIntoHostMemory) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  const BlockKey key = rig.NameRun(rig.session, 1, 1).keys[0];
  for (uint32_t hits = 1; hits <= 3; ++hits) {
    ASSERT_EQ(rig.Hits(rig.session, 1, 1), 1u);
    EXPECT_EQ(rig.agent->index().Find(key)->hits, hits);
  }
  rig.EvictHost();
  ASSERT_EQ(rig.Hits(rig.session, 1, 1), 1u);
  EXPECT_EQ(rig.agent->index().Find(key)->hits, 0u) << "the disk was hit";
}

TEST(OffloadAtCommitTest, EachDiskHasItsOwnBudget) {
  AgentRig rig({.slots = 128,
                .second_disk = true,
                .disk_writes = {.policy = WritePolicy::kAll, .drive_writes_per_day = kOneADay}});
  constexpr size_t kBlocks = 100;
  uint64_t belong[2] = {};
  for (const BlockKey& key : rig.NameRun(rig.session, 1, kBlocks).keys) {
    ++belong[*rig.agent->disks().set()->DiskFor(key)];
  }
  ASSERT_GT(std::min(belong[0], belong[1]), kHour);
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, kBlocks), kBlocks);
  for (const DiskSet::DiskStatus& disk : rig.agent->disks().set()->Statuses()) {
    EXPECT_EQ(disk.block_count, kHour);
    EXPECT_EQ(disk.written_bytes, kHour * kRecord);
  }
  EXPECT_EQ(StatsOf(rig).over_budget, kBlocks - 2 * kHour);
}

TEST(OffloadAtCommitTest, ADiskThatTakesOverAnothersBlockIsCharged) {
  AgentRig rig({.slots = 32,
                .second_disk = true,
                .disk_writes = {.policy = WritePolicy::kAll, .drive_writes_per_day = kOneADay}});
  rig.media.faults.write_error = 1;
  const auto left = [&](size_t disk) {
    return rig.agent->disks().admission()->BudgetLeft(disk, rig.executor.Now())->bytes;
  };
  const uint64_t before[2] = {left(0), left(1)};
  uint64_t number = 1;
  while (*rig.agent->disks().set()->DiskFor(rig.NameRun(rig.session, number, 1).keys[0]) != 0)
    ++number;
  ASSERT_EQ(rig.PutOnDisk(rig.session, number, 1), 1u);
  ASSERT_EQ(OnDisk(rig), 1u);
  EXPECT_EQ(before[0] - left(0), kRecord) << "the failed write is not given back";
  EXPECT_EQ(before[1] - left(1), kRecord);
}

TEST(OffloadAtCommitTest, WhatReclaimWritesAgainIsChargedAndCounted) {
  AgentRig rig({.slots = 64,
                .segments = 8,
                .disk_writes = {.policy = WritePolicy::kAll, .drive_writes_per_day = 100}});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 8), 8u);
  const auto reappended = [&] { return rig.agent->disks().set()->Statuses()[0].reappended_bytes; };
  // The first blocks are hit now and then, so the disk keeps them when it reclaims their segments.
  for (uint64_t first = 100; reappended() == 0; first += 8) {
    ASSERT_LT(first, 1000u);
    ASSERT_EQ(rig.PutOnDisk(rig.session, first, 8), 8u);
    ASSERT_EQ(rig.Hits(rig.session, 1, 8), 8u);
    rig.Pass(absl::Milliseconds(10));
  }
  rig.Pass(absl::Milliseconds(100));
  const DiskSet::DiskStatus disk = rig.agent->disks().set()->Statuses()[0];
  EXPECT_EQ(disk.written_bytes, StatsOf(rig).written * kRecord + disk.reappended_bytes);
  const auto left = rig.agent->disks().admission()->BudgetLeft(0, rig.executor.Now());
  const uint64_t bucket = left->bytes_per_day / 24;
  // The budget regained a few hundred bytes in these milliseconds.
  EXPECT_NEAR(static_cast<double>(bucket - left->bytes), static_cast<double>(disk.written_bytes),
              static_cast<double>(kRecord) / 2);
}

TEST(OffloadAtCommitTest, WithNoDiskInServiceABlockIsDeclinedAtOnce) {
  AgentRig rig;
  rig.disk.Stall();
  ASSERT_EQ(rig.Put(rig.session, 1, 1), 1u);
  rig.Pass(absl::Seconds(3));
  ASSERT_FALSE(rig.agent->disks().set()->Statuses()[0].serving);
  ASSERT_EQ(rig.Put(rig.session, 10, 3), 3u);
  EXPECT_EQ(StatsOf(rig).disk_failed, 3u);
  EXPECT_EQ(rig.agent->flows().offloader->pending(), 1u) << "the one that hangs";
  EXPECT_EQ(rig.Hits(rig.session, 10, 3), 3u);
}

TEST(OffloadAtCommitTest, AFloodOfOneTenantMakesAnothersBlockWaitForThoseBeingWritten) {
  constexpr size_t kFlood = 4 * kMaxOffloadsRunning;
  AgentRig rig({.slots = 2 * kFlood});
  const SessionId other = rig.Open(1);
  rig.disk.Stall();
  ASSERT_EQ(rig.Put(rig.session, 1, kFlood), kFlood);
  ASSERT_EQ(rig.Put(other, 1, 1), 1U);
  rig.disk.Resume();
  const BlockKey key = rig.NameRun(other, 1, 1).keys.at(0);
  while (!rig.agent->index().In(Tier::kDisk, key)) ASSERT_TRUE(rig.time.Step());
  EXPECT_LE(rig.agent->stats().offload.written, 2 * kMaxOffloadsRunning);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->stats().offload.written, kFlood + 1);
}

TEST(OffloadAtEvictionTest, NothingIsWrittenWhileThereIsRoom) {
  AgentRig rig({.slots = 64, .disk_writes = kLazy});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 56), 56u);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), 0u);
}

TEST(OffloadAtEvictionTest, TheColdestAreWrittenAheadOfNeedAndNoneIsLost) {
  AgentRig rig({.slots = 64, .disk_writes = kLazy});
  for (uint64_t block = 0; block < 128; ++block) {
    ASSERT_EQ(rig.PutOnDisk(rig.session, 1 + 10 * block, 1), 1u);
    rig.Pass(absl::Milliseconds(1));
  }
  EXPECT_EQ(StatsOf(rig).evicted, 0u);
  EXPECT_GE(OnDisk(rig), 64u);
  EXPECT_LE(OnDisk(rig), 64u + 64 / kReadyDivisor);
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 1u) << "the first one, from disk";
  rig.agent->Audit();
}

TEST(OffloadAtEvictionTest, WhatStaysHotIsNotWritten) {
  AgentRig rig({.slots = 64, .disk_writes = kLazy});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 4), 4u);
  for (uint64_t block = 1; block < 200; ++block) {
    ASSERT_EQ(rig.PutOnDisk(rig.session, 10 * block, 1), 1u);
    ASSERT_EQ(rig.Hits(rig.session, 1, 4), 4u);
    rig.Pass(absl::Milliseconds(1));
  }
  for (const BlockKey& key : rig.NameRun(rig.session, 1, 4).keys) {
    EXPECT_FALSE(rig.agent->index().In(Tier::kDisk, key));
  }
}

TEST(OffloadAtEvictionTest, ADiskThatIsBehindLosesBlocksAndSlowsNoPut) {
  AgentRig rig({.slots = 64, .disk_writes = kLazy});
  rig.disk.Stall();
  const absl::Time start = rig.executor.Now();
  for (uint64_t first = 1; first < 2000; first += 100) {
    ASSERT_EQ(rig.Put(rig.session, first, 8), 8u);
  }
  EXPECT_EQ(rig.executor.Now(), start);
  EXPECT_GE(StatsOf(rig).evicted, 20 * 8 - 64 - 4u) << "20 runs of 8, and 64 slots";
  EXPECT_EQ(rig.agent->disks().set()->stats().inserts, 0u);
  rig.disk.Resume();
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->flows().offloader->pending(), 0u);
  rig.agent->Audit();
}

// When the parent is judged, the write of its leaf is paid for and in progress. Without the parent
// that write would be of no use.
TEST(OffloadAtEvictionTest, TheParentOfABlockBeingWrittenIsWrittenOnCredit) {
  DiskWriteOptions writes = kLazy;
  writes.drive_writes_per_day = 1.5 * kOneADay / static_cast<double>(kHour);
  AgentRig rig({.slots = 64, .disk_writes = writes});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 64), 64u);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), 64 / kReadyDivisor);
  // The children of the blocks that leave next are on disk by now.
  ASSERT_EQ(rig.Put(rig.session, 1000, 4), 4u);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), 64 / kReadyDivisor + 4);
  EXPECT_EQ(StatsOf(rig).over_budget, 0u);
}

TEST(OffloadAtEvictionTest, APrefixThatCannotBePaidForIsOverBudget) {
  DiskWriteOptions writes = kLazy;
  writes.drive_writes_per_day = 1.5 * kOneADay / static_cast<double>(kHour);
  AgentRig rig({.slots = 64, .disk_writes = writes});
  for (uint64_t block = 0; block < 64; ++block) {
    ASSERT_EQ(rig.PutOnDisk(rig.session, 1 + 10 * block, 1), 1u);
  }
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(OnDisk(rig), 1u);
  EXPECT_EQ(StatsOf(rig).over_budget, 64 / kReadyDivisor - 1);
}

}  // namespace
}  // namespace kvtier
