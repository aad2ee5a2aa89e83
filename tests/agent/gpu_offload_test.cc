// Tests blocks that leave the GPU pool ahead of need: first the blocks that another tier has too,
// and then, after a copy to host memory, the blocks that only the pool has.
#include "agent/gpu/gpu_offload.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::FillBlock;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);
constexpr absl::Duration kMoment = absl::Milliseconds(10);
static_assert(kMoment < kSweepInterval);

class GpuOffloadTest : public ::testing::Test {
 protected:
  static AgentRig::Shape Slots(uint64_t host, uint64_t gpu) {
    return {.slots = host, .gpu_slots = gpu, .disk = false};
  }
  void Start(const AgentRig::Shape& shape) { rig_.emplace(shape); }
  ~GpuOffloadTest() override {
    if (rig_.has_value()) rig_->agent->Audit();
  }
  const AgentStats& stats() { return rig_->agent->stats(); }
  const GpuStats& gpu_stats() { return rig_->agent->gpus().at(0).stats(); }
  size_t free_slots() { return rig_->agent->gpus().at(0).pool().table().free_slots(); }
  bool In(Tier tier, uint64_t block) {
    return rig_->agent->index().In(tier, rig_->NameRun(rig_->session, block, 1).keys[0]);
  }
  // Returns which of the `count` blocks from `first` on are in the tier.
  std::vector<uint64_t> Which(Tier tier, uint64_t first, size_t count) {
    std::vector<uint64_t> there;
    for (uint64_t block = first; block < first + count; ++block) {
      if (In(tier, block)) there.push_back(block);
    }
    return there;
  }
  // Onboards a run of blocks to the pool; returns their leases.
  std::vector<LeaseId> Lease(uint64_t first, size_t count = 1) {
    const Onboarded onboarded =
        *rig_->Run(rig_->Onboard(rig_->session, first, count, kLong, Tier::kGpu));
    EXPECT_EQ(onboarded.blocks.size(), count);
    std::vector<LeaseId> leases;
    for (const LeasedBlock& block : onboarded.blocks) leases.push_back(block.lease);
    return leases;
  }
  void Use(uint64_t first, size_t count = 1) {
    rig_->agent->sessions().leases().Release(rig_->session, Lease(first, count));
  }
  // Fills the pool with blocks 1 to `count`, each a prefix of its own, used in this order; no other
  // tier has them.
  void FillPool(size_t count) {
    for (uint64_t block = 1; block <= count; ++block) {
      ASSERT_EQ(rig_->Put(rig_->session, block, 1), 1u);
      Use(block);
    }
    rig_->Pass(absl::Milliseconds(1));
    ASSERT_EQ(rig_->EvictHost(), count);
    ASSERT_EQ(Which(Tier::kGpu, 1, count).size(), count);
  }
  // Reserves slots like a worker that is about to write.
  Reserved Reserve(uint64_t first, size_t count) {
    return *rig_->agent->flows().putter.Reserve(rig_->NameRun(rig_->session, first, count),
                                                Tier::kGpu);
  }
  std::span<std::byte> InPool(uint64_t block) {
    const BlockKey key = rig_->NameRun(rig_->session, block, 1).keys[0];
    const uint64_t offset = rig_->agent->gpus().at(0).blocks().Find(key)->offset;
    return {rig_->agent->gpus().at(0).pool().region()->address() + offset, kRigBlockBytes};
  }

  std::optional<AgentRig> rig_;
};

using Blocks = std::vector<uint64_t>;

// A worker that asks for a slot should find one that nobody reads any more.
TEST_F(GpuOffloadTest, AFullPoolIsEmptiedAheadOfNeedToItsLowWatermark) {
  Start(Slots(96, 64));
  ASSERT_EQ(rig_->Put(rig_->session, 1, 63), 63u);
  Use(1, 62);
  EXPECT_EQ(gpu_stats().evicted_ahead, 0u) << "two to spare is what there must be";
  Use(63);
  EXPECT_EQ(gpu_stats().evicted_ahead, 3u);
  EXPECT_EQ(free_slots(), 64 / kGpuLowWatermarkSpare);
  EXPECT_EQ(gpu_stats().offload.copies, 0u) << "host memory has them";
}

TEST_F(GpuOffloadTest, WhatOnlyThePoolHasIsCopiedToHostMemoryAndThenLeaves) {
  Start(Slots(96, 64));
  FillPool(62);
  ASSERT_EQ(Reserve(100, 1).blocks[0].state, ReservedBlock::State::kReserved);
  EXPECT_EQ(Which(Tier::kGpu, 1, 62).size(), 62u) << "nobody waits for it";
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 62), (Blocks{1, 2, 3})) << "those that waited longest";
  EXPECT_EQ(Which(Tier::kGpu, 1, 4), (Blocks{4}));
  EXPECT_EQ(free_slots(), 64 / kGpuLowWatermarkSpare);
  EXPECT_EQ(gpu_stats().offloaded, 3u);
  EXPECT_EQ(gpu_stats().evicted_ahead, 3u);
  EXPECT_EQ(gpu_stats().offload.copies, 1u) << "not one by one";
  for (uint64_t block = 1; block <= 3; ++block) EXPECT_EQ(rig_->Hits(rig_->session, block, 1), 1u);
}

TEST_F(GpuOffloadTest, WhatIsElsewhereLeavesFirst) {
  Start(Slots(96, 64));
  FillPool(60);
  ASSERT_EQ(rig_->Put(rig_->session, 61, 1), 1u);
  ASSERT_EQ(rig_->Put(rig_->session, 62, 1), 1u);
  Use(61);
  Use(62);
  Reserve(100, 1);
  EXPECT_FALSE(In(Tier::kGpu, 61) || In(Tier::kGpu, 62)) << "at once";
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 60), (Blocks{1})) << "which were too few by one";
}

TEST_F(GpuOffloadTest, WhatIsUsedMoreLatelyStays) {
  Start(Slots(96, 64));
  FillPool(62);
  Use(1);
  Use(3);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 62), (Blocks{2, 4, 5}));
}

TEST_F(GpuOffloadTest, APrefixLeavesFromItsEnd) {
  Start(Slots(96, 64));
  ASSERT_EQ(rig_->Put(rig_->session, 1, 62), 62u);
  Use(1, 62);
  rig_->Pass(absl::Milliseconds(1));
  ASSERT_EQ(rig_->EvictHost(), 62u);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 62), (Blocks{60, 61, 62}));
  EXPECT_EQ(Which(Tier::kGpu, 1, 62).size(), 59u);
  EXPECT_EQ(gpu_stats().offload.copies, 1u);
}

TEST_F(GpuOffloadTest, MoreThanOneCopyMovesWhenMuchIsToLeave) {
  Start(Slots(1100, 1024));
  FillPool(992);
  Reserve(2000, 1);  // 31 slots are free, and 64 are wanted.
  EXPECT_EQ(gpu_stats().offload.in_flight, kMaxGpuOffloadsRunning);
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 1000).size(), 33u);
  EXPECT_EQ(gpu_stats().offload.copies, 3u) << "16, 16 and one";
  EXPECT_EQ(free_slots(), 1024 / kGpuLowWatermarkSpare);
}

TEST_F(GpuOffloadTest, ASmallPoolHasOneSlotToSpare) {
  Start(Slots(16, 8));
  FillPool(7);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), Blocks{});
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), (Blocks{1}));
  EXPECT_EQ(free_slots(), 1u);
  EXPECT_EQ(rig_->Hits(rig_->session, 1, 1), 1u);
}

TEST_F(GpuOffloadTest, APoolOfOneSlotHasNoneToSpare) {
  Start(Slots(16, 1));
  FillPool(1);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_TRUE(In(Tier::kGpu, 1));
}

TEST_F(GpuOffloadTest, WhatAWorkerHasLeasedStaysUntilItLetsGo) {
  Start(Slots(16, 8));
  FillPool(7);
  const std::vector<LeaseId> leases = Lease(1);
  for (uint64_t block = 2; block <= 7; ++block) Lease(block);
  Reserve(100, 1);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), Blocks{});
  EXPECT_EQ(gpu_stats().offload.copies, 0u);
  rig_->agent->sessions().leases().Release(rig_->session, leases);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), (Blocks{1}));
  EXPECT_EQ(free_slots(), 1u);
}

// The step only reads, so the copy does not wait for it; the slot is free only when the step ends.
TEST_F(GpuOffloadTest, ASlotThatAStepMayReadIsFreeBehindIt) {
  Start(Slots(16, 8));
  FillPool(7);
  const SignalPage* const page = *rig_->agent->sessions().AttachToGpu(rig_->session);
  const std::vector<LeaseId> leases = Lease(1);
  page->word(static_cast<size_t>(StepWord::kBegun))->store(1);
  rig_->agent->sessions().leases().Release(rig_->session, leases);
  for (uint64_t block = 2; block <= 7; ++block) Lease(block);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), (Blocks{1}));
  EXPECT_FALSE(In(Tier::kGpu, 1));
  EXPECT_EQ(rig_->agent->gpus().at(0).pool().table().draining_slots(), 1u);
  EXPECT_EQ(free_slots(), 0u);
  page->word(static_cast<size_t>(StepWord::kRetired))->store(1);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(free_slots(), 1u);
}

TEST_F(GpuOffloadTest, WhatIsUsedWhileItIsCopiedStays) {
  Start(Slots(96, 64));
  FillPool(62);
  Reserve(100, 1);
  ASSERT_EQ(gpu_stats().offload.in_flight, 1u);
  Use(2);
  const std::vector<LeaseId> leases = Lease(3);
  ASSERT_EQ(gpu_stats().offload.in_flight, 1u) << "these two waited for nothing";
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kGpu, 1, 6), (Blocks{2, 3, 6})) << "two others went in their place";
  EXPECT_EQ(Which(Tier::kHost, 1, 6), (Blocks{1, 2, 3, 4, 5}));
}

TEST_F(GpuOffloadTest, WhoNeedsASlotWaitsForNoCopy) {
  Start(Slots(96, 64));
  FillPool(62);
  const Reserved reserved = Reserve(100, 3);
  EXPECT_TRUE(std::ranges::all_of(reserved.blocks, [](const ReservedBlock& block) {
    return block.state == ReservedBlock::State::kReserved;
  })) << "the third took the slot of a block that only the pool had";
  EXPECT_EQ(Which(Tier::kGpu, 1, 62).size(), 61u);
}

TEST_F(GpuOffloadTest, HostMemoryMakesRoomByItsOwnOrder) {
  Start(Slots(8, 8));
  FillPool(7);
  ASSERT_EQ(rig_->Put(rig_->session, 50, 8), 8u);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_TRUE(In(Tier::kHost, 1));
  EXPECT_EQ(Which(Tier::kHost, 50, 8), (Blocks{50, 51, 52, 53, 54, 55, 56}));
  EXPECT_EQ(gpu_stats().offload_declined, 0u);
}

TEST_F(GpuOffloadTest, WithoutRoomInHostMemoryNothingIsCopiedAndItIsCounted) {
  Start(Slots(8, 8));
  FillPool(7);
  ASSERT_EQ(rig_->Put(rig_->session, 50, 8), 8u);
  ASSERT_EQ(rig_->Run(rig_->Onboard(rig_->session, 50, 8, kLong))->blocks.size(), 8u);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(gpu_stats().offload_declined, 1u);
  EXPECT_EQ(gpu_stats().offload.copies, 0u);
  EXPECT_EQ(Which(Tier::kGpu, 1, 7).size(), 7u);
  rig_->agent->sessions().leases().ReleaseAll(rig_->session);
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), (Blocks{1})) << "tried again";
}

TEST_F(GpuOffloadTest, ACopyThatFailsIsTriedAgainAndTheBlocksStayMeanwhile) {
  Start(Slots(16, 8));
  FillPool(7);
  rig_->device.FailCopy(CopyDirection::kDeviceToHost, 1);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(gpu_stats().offload.failed, 1u);
  EXPECT_EQ(Which(Tier::kGpu, 1, 7).size(), 7u);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), Blocks{});
  rig_->Pass(2 * kSweepInterval);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), (Blocks{1}));
  EXPECT_EQ(rig_->Hits(rig_->session, 1, 1), 1u);
}

TEST_F(GpuOffloadTest, ALostDeviceCopiesNothingAnyMore) {
  Start(Slots(16, 8));
  FillPool(7);
  Reserve(100, 1);
  ASSERT_EQ(gpu_stats().offload.in_flight, 1u);
  rig_->device.Lose();
  rig_->Pass(absl::Seconds(1));
  EXPECT_EQ(gpu_stats().offload.copies, 1u) << "the one that ran";
  EXPECT_EQ(gpu_stats().offload.failed, 1u);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), Blocks{});
  EXPECT_EQ(rig_->agent->gpus().pinned_bytes(), 0u);
}

// A worker maps all of the pool, so it may change any block there (law 3).
TEST_F(GpuOffloadTest, ABlockThatChangedInThePoolDoesNotSpread) {
  Start(Slots(16, 8));
  FillPool(7);
  InPool(1)[17] ^= std::byte{1};
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(stats().gpu.verify_failures, 1u);
  EXPECT_FALSE(In(Tier::kGpu, 1) || In(Tier::kHost, 1));
}

// An engine may compute a block twice, with bytes that differ.
TEST_F(GpuOffloadTest, ABlockIsProvedByTheSumOfItsBytesInThePool) {
  Start(Slots(16, 8));
  FillPool(7);
  const BlockRun run = rig_->NameRun(rig_->session, 1, 1);
  const Reserved reserved = *rig_->agent->flows().putter.Reserve(run, Tier::kHost);
  FillBlock(77, TestEngineKey(1), rig_->Host(rig_->session, reserved.blocks[0].offset));
  ASSERT_EQ(rig_->Run(rig_->agent->flows().putter.Commit(rig_->session, {reserved.blocks[0].id})),
            1u);
  ASSERT_EQ(rig_->EvictHost(), 1u);
  Reserve(100, 1);
  rig_->Pass(kMoment);
  EXPECT_EQ(stats().gpu.verify_failures, 0u);
  EXPECT_EQ(rig_->Hits(rig_->session, 1, 1), 1u) << "which holds its bytes against the pool's";
}

TEST_F(GpuOffloadTest, WhatIsOnItsWayWhenItsTenantIsErasedDoesNotArrive) {
  Start(Slots(16, 8));
  FillPool(7);
  Reserve(100, 1);
  ASSERT_EQ(gpu_stats().offload.in_flight, 1u);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      rig_->Run(rig_->agent->flows().tenant_eraser.Erase("default")).status()))
      << "there is no disk; memory is cleared";
  rig_->Pass(kMoment);
  EXPECT_EQ(Which(Tier::kHost, 1, 7), Blocks{});
  EXPECT_EQ(Which(Tier::kGpu, 1, 7), Blocks{});
}

TEST_F(GpuOffloadTest, AnAgentThatStopsBeginsNoCopy) {
  Start(Slots(1100, 1024));
  FillPool(992);
  Reserve(2000, 1);
  rig_->Spawn(rig_->agent->Stop(rig_->executor.Now() + kLong));
  rig_->Pass(kMoment);
  EXPECT_EQ(gpu_stats().offload.copies, kMaxGpuOffloadsRunning);
}

}  // namespace
}  // namespace kvtier
