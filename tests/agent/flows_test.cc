// Tests the flows of one agent: put, offload, disk load, GPU load, onboard, serve a peer.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agent/limits.h"
#include "agent/tenant_shares.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);

TEST(PutTest, WhatIsCommittedIsHitAndAnotherTenantDoesNotSeeIt) {
  AgentRig rig;
  EXPECT_EQ(rig.Put(rig.session, 1, 5), 5u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 7), 5u);
  const SessionId other = rig.Open(1);
  EXPECT_EQ(rig.Hits(other, 1, 7), 0u) << "the same engine keys, another tenant";
  EXPECT_EQ(rig.Put(other, 1, 5), 5u);
  EXPECT_EQ(rig.Hits(other, 1, 7), 5u);
}

TEST(PutTest, OfTwoWorkersWithOneKeyTheFirstWrites) {
  AgentRig rig;
  const BlockRun run = rig.NameRun(rig.session, 1, 2);
  const Reserved first = *rig.agent->flows().putter.Reserve(run, Tier::kHost);
  const Reserved second =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.Open(0), 1, 2), Tier::kHost);
  EXPECT_EQ(first.blocks[1].state, ReservedBlock::State::kReserved);
  EXPECT_EQ(second.blocks[1].state, ReservedBlock::State::kPending);
  // After a reservation is given back, anyone may reserve its key again.
  const std::vector<ReservationId> back = {first.blocks[0].id, first.blocks[1].id};
  rig.agent->sessions().reservations().Release(rig.session, back);
  EXPECT_EQ(rig.Put(rig.session, 1, 2), 2u);
}

// Regression: a block that another worker was putting was reported as present. When that worker
// gave up, nobody had stored the block, and a worker that had been told "present" did not ask
// again.
TEST(PutTest, ABlockThatAnotherIsPuttingIsNotCalledPresent) {
  AgentRig rig({.gpu_slots = 2});
  const SessionId other = rig.Open(0);
  const auto state = [&](SessionId of, Tier target) {
    return rig.agent->flows().putter.Reserve(rig.NameRun(of, 1, 1), target)->blocks[0].state;
  };
  const Reserved first = *rig.agent->flows().putter.Reserve(rig.NameRun(other, 1, 1), Tier::kHost);
  EXPECT_EQ(state(rig.session, Tier::kHost), ReservedBlock::State::kPending);
  EXPECT_EQ(state(rig.session, Tier::kGpu), ReservedBlock::State::kPending);
  EXPECT_EQ(state(other, Tier::kHost), ReservedBlock::State::kPending) << "by itself";
  rig.Pass(kReservationDuration + 2 * kSweepInterval);  // The put gives up.
  EXPECT_EQ(rig.Put(rig.session, 1, 1), 1u);
  EXPECT_EQ(state(other, Tier::kHost), ReservedBlock::State::kPresent);
}

TEST(PutTest, AnUncommittedBlockIsNeverSeen) {
  AgentRig rig;
  ASSERT_TRUE(rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 2), Tier::kHost).ok());
  EXPECT_EQ(rig.Hits(rig.session, 1, 2), 0u);
  EXPECT_EQ(rig.Run(rig.agent->flows().matcher.Match({rig.NameRun(rig.session, 1, 2)}, kLong))[0]
                .local_blocks,
            0u);
}

// Regression: a put that continued a prefix evicted the end of that prefix, block by block. The
// blocks that the put stored behind the hole were of no use.
TEST(PutTest, NothingOfThePrefixThatAPutContinuesLeavesForIt) {
  AgentRig rig({.eviction = {.host = EvictionPolicy::kLru}, .disk = false});
  ASSERT_EQ(rig.Put(rig.session, 101, 4), 4u);
  ASSERT_EQ(rig.Put(rig.session, 1, 12), 12u);
  EXPECT_EQ(rig.Put(rig.session, 13, 8, TestEngineKey(12)), 4u) << "the other conversation left";
  EXPECT_EQ(rig.Hits(rig.session, 1, 20), 16u);
  EXPECT_EQ(rig.Put(rig.session, 17, 8, TestEngineKey(16)), 0u);
  EXPECT_EQ(rig.Put(rig.session, 1, 20), 0u) << "with the prefix in the same put";
  EXPECT_EQ(rig.Hits(rig.session, 1, 20), 16u);
  EXPECT_EQ(rig.Put(rig.session, 201, 8), 8u) << "which others may evict";
  rig.agent->Audit();
}

TEST(PutTest, ATargetWithoutAPoolIsRefused) {
  AgentRig rig;
  EXPECT_TRUE(absl::IsInvalidArgument(
      rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 1), Tier::kGpu).status()));
}

TEST(PutTest, AGpuPutIsGatheredToHostMemory) {
  AgentRig rig({.gpu_slots = 4});
  const Reserved reserved =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 2), Tier::kGpu);
  const std::vector<ReservationId> ids = {reserved.blocks[0].id, reserved.blocks[1].id};
  EXPECT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, ids)), 2u);
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kGpu), 2u);
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), 2u);
}

// Regression: a commit from the pool of a GPU that hung never ended.
TEST(PutTest, ACommitEndsThoughTheGpuHangs) {
  AgentRig rig({.gpu_slots = 4});
  const Reserved reserved =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 1), Tier::kGpu);
  rig.device.Stall(Lane::kOffload);
  const absl::Time start = rig.executor.Now();
  EXPECT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, {reserved.blocks[0].id})), 0u);
  EXPECT_EQ(rig.executor.Now() - start, kCommitTimeout);
  rig.device.Resume(Lane::kOffload);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), 1u) << "late, and not lost";
}

// Regression: a block that only the GPU pool had could not be onboarded to the host, nor put there,
// because a reserve said that it was present.
TEST(PutTest, ABlockThatOnlyTheGpuHasCanBePutOnTheHost) {
  AgentRig rig({.gpu_slots = 4, .disk = false});
  const Reserved reserved =
      *rig.agent->flows().putter.Reserve(rig.NameRun(rig.session, 1, 1), Tier::kGpu);
  ASSERT_EQ(rig.Run(rig.agent->flows().putter.Commit(rig.session, {reserved.blocks[0].id})), 1u);
  ASSERT_EQ(rig.EvictHost(), 1u);
  EXPECT_EQ(rig.Put(rig.session, 1, 1), 1u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 1u);
}

TEST(OffloadTest, AnAlteredBlockIsNotWritten) {
  AgentRig rig({.slots = 64});
  rig.disk.Stall();
  // The last block waits for its turn to be written. Meanwhile a faulty worker changes its bytes.
  const size_t blocks = kMaxOffloadsRunning + 1;
  ASSERT_EQ(rig.Put(rig.session, 1, blocks), blocks);
  const BlockKey last = rig.NameRun(rig.session, blocks, 1).keys[0];
  rig.Host(rig.session, rig.agent->index().Find(last)->slot.offset().value)[9] ^= std::byte{1};
  rig.disk.Resume();
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->stats().offload.altered, 1u);
  EXPECT_FALSE(rig.agent->index().In(Tier::kDisk, last));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kDisk), blocks - 1);
}

TEST(OffloadTest, AStalledDiskDeclinesNothingUntilHalfOfTheDomainIsPromised) {
  AgentRig rig({.slots = 64});
  rig.disk.Stall();
  ASSERT_EQ(rig.Put(rig.session, 1, 40), 32u);
  EXPECT_EQ(rig.agent->flows().offloader->pending(), 32u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 40), 32u) << "a stalled disk costs no host hit";
  rig.disk.Resume();
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kDisk), 32u);
}

// Regression: a queued block whose write ended at once began the next write from its own frame, so
// a full queue took a stack frame for each block.
TEST(OffloadTest, AFullQueueIsWorkedOffWithoutDepth) {
  AgentRig rig({.slots = 4 * kMaxOffloadQueued});
  rig.disk.Stall();
  // Each of the two tenants may queue half.
  const size_t part = kMaxOffloadQueued / 2;
  ASSERT_EQ(rig.Put(rig.session, 1, part + 1), part);
  EXPECT_EQ(rig.agent->stats().offload.declined_behind, 1u) << "one more than may be promised";
  rig.media.faults.write_error = 1;
  rig.disk.Resume();
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->flows().offloader->pending(), 0u);
}

TEST(DiskLoadTest, WhatLeftTheHostComesBackFromDisk) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 6), 6u);
  ASSERT_EQ(rig.EvictHost(), 6u);
  const Onboarded onboarded = *rig.Run(rig.Onboard(rig.session, 1, 6, kLong));
  ASSERT_EQ(onboarded.blocks.size(), 6u);
  EXPECT_EQ(onboarded.blocks[0].from, Tier::kDisk);
  EXPECT_EQ(rig.Hits(rig.session, 1, 6), 6u);
}

TEST(DiskLoadTest, AStalledDiskIsAMissAtTheDeadlineAndTheBlockIsCachedLater) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 2), 2u);
  rig.EvictHost();
  rig.disk.Stall();
  const absl::Time start = rig.executor.Now();
  EXPECT_EQ(rig.Hits(rig.session, 1, 2, absl::Milliseconds(30)), 0u);
  EXPECT_EQ(rig.executor.Now() - start, absl::Milliseconds(30));
  EXPECT_EQ(rig.agent->stats().deadline_misses, 2u);
  rig.disk.Resume();
  rig.Pass(absl::Milliseconds(10));
  EXPECT_TRUE(rig.agent->index().In(Tier::kHost, rig.NameRun(rig.session, 1, 1).keys[0]));
}

TEST(DiskLoadTest, TheSecondAskerWaitsForTheFirstsLoadInsideItsOwnDeadline) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  rig.EvictHost();
  rig.disk.Stall();
  const auto patient = rig.Spawn(rig.Onboard(rig.session, 1, 1, kLong));
  const auto hasty = rig.Spawn(rig.Onboard(rig.session, 1, 1, absl::Milliseconds(5)));
  rig.Pass(absl::Milliseconds(5));
  ASSERT_TRUE(hasty->has_value());
  EXPECT_TRUE((*hasty)->value().blocks.empty());
  EXPECT_FALSE(patient->has_value());
  rig.disk.Resume();
  rig.Pass(absl::Milliseconds(5));
  ASSERT_TRUE(patient->has_value());
  EXPECT_EQ((*patient)->value().blocks.size(), 1u);
  EXPECT_EQ(rig.agent->disks().set()->stats().hits, 1u) << "one read for both";
}

TEST(DiskLoadTest, LoadsBeyondTheLimitWaitAndForegroundGoesFirst) {
  AgentRig rig({.slots = 4 * kMaxLoadsRunning});
  const size_t blocks = 3 * kMaxLoadsRunning + 1;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, blocks), blocks);
  rig.EvictHost();
  rig.disk.Stall();
  // The prefetch asks for three times the loads that may run; then a worker onboards one more
  // block.
  ASSERT_EQ(
      rig.Run(rig.agent->flows().onboarder.Prefetch(rig.NameRun(rig.session, 1, blocks - 1), true)),
      blocks - 1);
  const auto asker = rig.Spawn(rig.Onboard(rig.session, blocks, 1, kLong));
  rig.Pass(absl::Milliseconds(1));
  const uint64_t before = rig.agent->disks().set()->stats().hits;
  rig.disk.Resume();
  while (!asker->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ((*asker)->value().blocks.size(), 1u);
  EXPECT_LE(rig.agent->disks().set()->stats().hits - before, 2 * kMaxLoadsRunning)
      << "second in line";
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), blocks);
}

TEST(DiskLoadTest, APrefetchThatSomebodyComesToWaitForGoesFirst) {
  AgentRig rig({.slots = 4 * kMaxLoadsRunning});
  const size_t blocks = 3 * kMaxLoadsRunning;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, blocks), blocks);
  rig.EvictHost();
  rig.disk.Stall();
  ASSERT_EQ(
      rig.Run(rig.agent->flows().onboarder.Prefetch(rig.NameRun(rig.session, 1, blocks), true)),
      blocks);
  const auto asker = rig.Spawn(rig.Onboard(rig.session, blocks, 1, kLong));  // Last in line.
  rig.Pass(absl::Milliseconds(1));
  const uint64_t before = rig.agent->disks().set()->stats().hits;
  rig.disk.Resume();
  while (!asker->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ((*asker)->value().blocks.size(), 1u);
  EXPECT_LE(rig.agent->disks().set()->stats().hits - before, 2 * kMaxLoadsRunning)
      << "second in line";
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), blocks);
}

TEST(DiskLoadTest, AFloodOfOneTenantsLoadsMakesAnothersWaitForThoseThatRun) {
  AgentRig rig({.slots = 5 * kMaxLoadsRunning});
  const SessionId other = rig.Open(1);
  const size_t blocks = 4 * kMaxLoadsRunning;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, blocks), blocks);
  ASSERT_EQ(rig.PutOnDisk(other, 1, 1), 1u);
  rig.EvictHost();
  rig.disk.Stall();
  const auto flood = rig.Spawn(rig.Onboard(rig.session, 1, blocks, kLong));
  const auto asker = rig.Spawn(rig.Onboard(other, 1, 1, kLong));
  rig.Pass(absl::Milliseconds(1));
  const uint64_t before = rig.agent->disks().set()->stats().hits;
  rig.disk.Resume();
  while (!asker->has_value()) ASSERT_TRUE(rig.time.Step());
  EXPECT_EQ((*asker)->value().blocks.size(), 1u);
  EXPECT_LE(rig.agent->disks().set()->stats().hits - before, 2 * kMaxLoadsRunning);
  rig.Pass(absl::Seconds(1));
  EXPECT_EQ((*flood)->value().blocks.size(), blocks);
}

// There are two tenants, and the other one is guaranteed a quarter of the queue.
TEST(DiskLoadTest, TheQueueHoldsAsManyAsAllowedAndOneMoreIsAMissAtOnce) {
  const size_t queued = kMaxLoadsQueued - kMaxLoadsQueued / TenantShares::kGuaranteedPart / 2;
  const size_t blocks = kMaxLoadsRunning + queued + 1;
  AgentRig rig({.slots = blocks, .segments = static_cast<uint32_t>(blocks / 6)});
  const SessionId other = rig.Open(1);
  ASSERT_EQ(rig.PutOnDisk(other, 1, 1), 1u);
  for (size_t put = 0; put < blocks; put += kMaxOffloadQueued) {
    const size_t some = std::min(blocks - put, kMaxOffloadQueued);
    ASSERT_EQ(rig.PutOnDisk(rig.session, 1 + put, some), some);
  }
  rig.EvictHost();
  rig.disk.Stall();
  ASSERT_EQ(
      rig.Run(rig.agent->flows().onboarder.Prefetch(rig.NameRun(rig.session, 1, blocks), true)),
      blocks - 1);
  EXPECT_EQ(rig.agent->stats().host.declined, 1u);
  const absl::Time start = rig.executor.Now();
  EXPECT_EQ(rig.Hits(rig.session, blocks, 1, kLong), 0u);
  EXPECT_EQ(rig.executor.Now(), start);
  // The other tenant's load is not refused.
  EXPECT_EQ(rig.Run(rig.agent->flows().onboarder.Prefetch(rig.NameRun(other, 1, 1), true)), 1u);
  rig.disk.Resume();
  rig.Pass(kLong);
  EXPECT_EQ(rig.agent->index().blocks_in(Tier::kHost), blocks);
}

TEST(DiskLoadTest, AFlippedBitIsAMissACounterAndAQuarantine) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  rig.EvictHost();
  for (uint32_t segment = 0; segment < rig.media.segment_count(); ++segment) {
    // The bit is in the payload of the segment's first record. The test flips one in every segment,
    // because it does not know which has the record.
    rig.media.FlipBit({.segment = SegmentId{segment}}, 4096 * 8 + 77);
  }
  EXPECT_EQ(rig.Hits(rig.session, 1, 1), 0u);
  EXPECT_EQ(rig.agent->disks().set()->stats().verify_failures, 1u);
  EXPECT_FALSE(rig.agent->index().In(Tier::kDisk, rig.NameRun(rig.session, 1, 1).keys[0]));
  EXPECT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u) << "and can be put again";
}

TEST(OnboardTest, GivesTheLeadingRunAlone) {
  AgentRig rig;
  ASSERT_EQ(rig.Put(rig.session, 1, 3), 3u);
  ASSERT_EQ(rig.Put(rig.session, 5, 3), 3u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 7), 3u);
  EXPECT_EQ(rig.Hits(rig.session, 4, 4), 0u);
}

TEST(OnboardTest, APrefixLargerThanTheHostTierIsCutAndHarmsNothing) {
  AgentRig rig({.slots = 8});
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 6), 6u);
  ASSERT_EQ(rig.PutOnDisk(rig.session, 7, 6), 6u);
  EXPECT_EQ(rig.Hits(rig.session, 1, 12), 8u);
  rig.agent->Audit();
}

TEST(OnboardTest, AGpuTargetIsScatteredAndKeptThere) {
  AgentRig rig({.gpu_slots = 4});
  ASSERT_EQ(rig.Put(rig.session, 1, 3), 3u);
  const Onboarded first = *rig.Run(rig.Onboard(rig.session, 1, 3, kLong, Tier::kGpu));
  ASSERT_EQ(first.blocks.size(), 3u);
  EXPECT_EQ(first.blocks[2].from, Tier::kHost);
  const Onboarded again = *rig.Run(rig.Onboard(rig.session, 1, 3, kLong, Tier::kGpu));
  EXPECT_EQ(again.blocks[2].from, Tier::kGpu);
  EXPECT_EQ(again.blocks[2].offset, first.blocks[2].offset);
}

TEST(OnboardTest, AHungGpuIsAMissAtTheDeadline) {
  AgentRig rig({.gpu_slots = 4});
  ASSERT_EQ(rig.Put(rig.session, 1, 2), 2u);
  rig.device.Stall(Lane::kOnboard);
  const absl::Time start = rig.executor.Now();
  const auto onboarded =
      rig.Run(rig.Onboard(rig.session, 1, 2, absl::Milliseconds(20), Tier::kGpu));
  EXPECT_TRUE(onboarded->blocks.empty());
  EXPECT_EQ(rig.executor.Now() - start, absl::Milliseconds(20));
  EXPECT_EQ(rig.Hits(rig.session, 1, 2), 2u) << "the host tier goes on";
}

TEST(OnboardTest, WaitsNoLongerThanKMaxRequestTimeout) {
  AgentRig rig;
  ASSERT_EQ(rig.PutOnDisk(rig.session, 1, 1), 1u);
  rig.EvictHost();
  rig.disk.Stall();
  const absl::Time start = rig.executor.Now();
  EXPECT_TRUE(rig.Run(rig.Onboard(rig.session, 1, 1, absl::Hours(1)))->blocks.empty());
  EXPECT_EQ(rig.executor.Now() - start, kMaxRequestTimeout);
}

}  // namespace
}  // namespace kvtier
