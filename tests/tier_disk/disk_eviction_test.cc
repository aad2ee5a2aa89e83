// Tests which blocks a full disk keeps, by policy. ReclaimOrder's own tests have the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/testing/patience.h"
#include "tests/tier_disk/disk_rig.h"

namespace kvtier {
namespace {

using testing::DiskForm;
using testing::DiskKey;
using testing::DiskRig;

constexpr uint64_t kLength = 60000;  // Some sixteen blocks to a segment.

// Puts blocks 1 to `last`: more than two segments. On so small a disk a segment is an epoch.
void PutUpTo(uint64_t last, DiskRig* rig) {
  for (uint64_t i = 1; i <= last; ++i) ASSERT_EQ(rig->Put(i, kLength), absl::OkStatus());
}

// Puts blocks from `number` on until a segment was reclaimed, which is the segment of block 1.
void PutUntilReclaim(uint64_t number, DiskRig* rig) {
  while (rig->tier->reclaimed().segments == 0) {
    ASSERT_EQ(rig->Put(number++, kLength), absl::OkStatus());
  }
}

// Reclaim comes to blocks 1 to 4, of which 1 and 2 were used. The learnt order acts as LRU here,
// because it has no lessons yet.
TEST(DiskEvictionTest, ReclaimKeepsWhatThePolicySays) {
  struct Case {
    EvictionPolicy policy;
    std::vector<uint64_t> kept;
  };
  for (const Case& expected :
       {Case{EvictionPolicy::kFifo, {}}, Case{EvictionPolicy::kLru, {1, 2}},
        Case{EvictionPolicy::kPriority, {1, 2}}, Case{EvictionPolicy::kLearnt, {1, 2}}}) {
    SCOPED_TRACE(EvictionPolicyName(expected.policy));
    DiskRig rig(DiskForm::kSim, {.eviction = expected.policy}, "", [](const BlockKey&) {});
    ASSERT_EQ(rig.Open(), absl::OkStatus());
    PutUpTo(40, &rig);
    rig.tier->Touch(DiskKey(1), {});
    rig.tier->Touch(DiskKey(2), {.priority = 1});
    PutUntilReclaim(41, &rig);
    std::vector<uint64_t> kept;
    for (uint64_t old = 1; old <= 4; ++old) {
      if (rig.tier->Contains(DiskKey(old))) kept.push_back(old);
    }
    EXPECT_EQ(kept, expected.kept);
    EXPECT_EQ(rig.tier->reclaimed().reappended_blocks, kept.size());
    rig.tier->Audit();
  }
}

// Once, blocks that nobody had asked for were written again whenever puts paused for a second: what
// is known of a block's first second says nothing of the next, and each was as good as the mean.
// Writes took the time of a read, a write and a commit for each such block.
TEST(DiskEvictionTest, WhatWasOnlyPutIsWrittenOnce) {
  constexpr uint64_t kSmall = 4096;
  constexpr uint64_t kPuts = testing::kSanitized ? 6000 : 48000;
  DiskRig rig(DiskForm::kSim, {}, "", [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  // Between two pauses the log comes round twenty times.
  for (uint64_t i = 1; i <= kPuts; ++i) {
    ASSERT_EQ(rig.Put(i, kSmall), absl::OkStatus());
    if (i % (kPuts / 4) == 0) rig.sim_time.RunUntil(rig.sim_time.Now() + absl::Milliseconds(2300));
  }
  EXPECT_GT(rig.tier->reclaimed().segments, 30U);
  EXPECT_EQ(rig.tier->reclaimed().reappended_blocks, 0U);
}

// The put that waits for the room waits for a few copies at most, and not for half a segment of
// them one after another.
TEST(DiskEvictionTest, SurvivorsAreCopiedSeveralAtATime) {
  DiskRig rig(DiskForm::kSim, {.eviction = EvictionPolicy::kLru}, "", [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  PutUpTo(40, &rig);
  for (uint64_t old = 1; old <= 16; ++old) rig.tier->Touch(DiskKey(old), {});
  const absl::Duration latency = testing::SimDiskFaults().latency;
  absl::Duration longest;
  for (uint64_t number = 41; rig.tier->reclaimed().segments == 0; ++number) {
    const absl::Time began = rig.sim_time.Now();
    ASSERT_EQ(rig.Put(number, kLength), absl::OkStatus());
    longest = std::max(longest, rig.sim_time.Now() - began);
  }
  const uint64_t copies = rig.tier->reclaimed().reappended_blocks;
  EXPECT_GE(copies, 7U);
  EXPECT_LT(longest, latency * static_cast<double>(copies));
}

// The disk itself stores no states of blocks and no lessons: without StoredLessons a tier begins
// again.
TEST(DiskEvictionTest, AfterARestartReclaimGoesByWhatComesThen) {
  DiskRig rig(DiskForm::kSim, {}, "", [](const BlockKey&) {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  PutUpTo(40, &rig);
  rig.tier->Touch(DiskKey(1), {});
  ASSERT_EQ(rig.Open(), absl::OkStatus());
  rig.tier->Audit();
  uint64_t number = 41;
  while (number <= 60) ASSERT_EQ(rig.Put(number++, kLength), absl::OkStatus());
  rig.tier->Touch(DiskKey(2), {});
  PutUntilReclaim(number, &rig);
  EXPECT_FALSE(rig.tier->Contains(DiskKey(1)));
  EXPECT_TRUE(rig.tier->Contains(DiskKey(2)));
}

}  // namespace
}  // namespace kvtier
