// Tests a device that is lost in the middle of a copy. The copy may go on, unseen, for as long as
// the agent runs, so the memory that it reads and writes is given to nobody else.
#include <gtest/gtest.h>

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
constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;

class GpuLossTest : public ::testing::Test {
 protected:
  ~GpuLossTest() override { rig_.agent->Audit(); }
  Reserved Reserve(uint64_t first, size_t count) {
    return *rig_.agent->flows().putter.Reserve(rig_.NameRun(rig_.session, first, count),
                                               Tier::kGpu);
  }
  // Writes a block in the pool and commits it; returns how many were committed.
  size_t PutInPool(uint64_t block) {
    const ReservedBlock reserved = Reserve(block, 1).blocks[0];
    if (reserved.state != ReservedBlock::State::kReserved) return 0;
    const DomainId domain = rig_.NameRun(rig_.session, block, 1).domain;
    std::byte* const slot = rig_.agent->gpus().at(0).pool().region()->address() + reserved.offset;
    FillBlock(AgentRig::Seed(domain), TestEngineKey(block), {slot, kRigBlockBytes});
    const size_t committed =
        rig_.Run(rig_.agent->flows().putter.Commit(rig_.session, {reserved.id}));
    rig_.Pass(absl::Milliseconds(1));
    return committed;
  }
  size_t OnboardToPool(uint64_t block) {
    const Onboarded onboarded = *rig_.Run(rig_.Onboard(rig_.session, block, 1, kLong, Tier::kGpu));
    rig_.agent->sessions().leases().ReleaseAll(rig_.session);
    rig_.Pass(absl::Milliseconds(1));
    return onboarded.blocks.size();
  }
  uint64_t used_slots() const {
    return rig_.agent->gpus().at(0).pool().used_bytes() / kRigBlockBytes;
  }
  uint64_t host_slots() const { return rig_.agent->host().used_bytes() / kRigBlockBytes; }

  AgentRig rig_{{.slots = 8, .gpu_slots = 2, .disk = false}};
};

// Regression: a commit failed, and the next worker wrote the slot that the lost device's copy still
// read.
TEST_F(GpuLossTest, ASlotThatALostDeviceMayStillReadIsNotGivenToTheNextWorker) {
  rig_.device.LoseInCopy(kOut, 1);
  EXPECT_EQ(PutInPool(1), 0u);
  EXPECT_EQ(used_slots(), 1u);
  const Reserved next = Reserve(10, 2);
  EXPECT_EQ(next.blocks[0].state, ReservedBlock::State::kReserved);
  EXPECT_EQ(next.blocks[1].state, ReservedBlock::State::kNoRoom);
  EXPECT_EQ(rig_.Put(rig_.session, 1, 1), 1u) << "the block may be put by another";
}

TEST_F(GpuLossTest, HostMemoryThatALostDeviceMayStillWriteIsNobodysBlock) {
  rig_.device.LoseInCopy(kOut, 1);
  EXPECT_EQ(PutInPool(1), 0u);
  EXPECT_EQ(host_slots(), 1u);
  EXPECT_EQ(rig_.Put(rig_.session, 10, 8), 7u);
  rig_.device.RunAbandoned();
  EXPECT_EQ(rig_.Hits(rig_.session, 10, 7), 7u);
}

TEST_F(GpuLossTest, ALoadThatALostDeviceMayStillMakeKeepsBothItsEnds) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 1), 1u);
  rig_.device.LoseInCopy(kIn, 1);
  EXPECT_EQ(OnboardToPool(1), 0u);
  EXPECT_EQ(used_slots(), 1u);
  EXPECT_EQ(rig_.EvictHost(), 0u);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 1u) << "it is read there, and not written";
}

TEST_F(GpuLossTest, WhatLeavesThePoolAheadOfNeedStaysWhileALostDeviceMayReadIt) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 1), 1u);
  ASSERT_EQ(OnboardToPool(1), 1u);
  ASSERT_EQ(rig_.EvictHost(), 1u);
  rig_.device.LoseInCopy(kOut, 1);
  Reserve(10, 1);
  rig_.Pass(absl::Milliseconds(10));
  ASSERT_EQ(rig_.agent->gpus().at(0).stats().offload.failed, 1u);
  EXPECT_EQ(rig_.EvictGpus(), 0u);
  EXPECT_EQ(host_slots(), 1u) << "where it was to go";
}

// A lost device never runs a copy that it had not begun, so such a copy costs no memory.
TEST_F(GpuLossTest, ACopyThatALostDeviceRefusesGivesEverythingBack) {
  rig_.device.Lose();
  for (uint64_t block = 1; block <= 20; ++block) EXPECT_EQ(PutInPool(block), 0u);
  EXPECT_EQ(used_slots(), 0u);
  EXPECT_EQ(host_slots(), 0u);
  ASSERT_EQ(rig_.Put(rig_.session, 1, 1), 1u);
  EXPECT_EQ(OnboardToPool(1), 0u);
  EXPECT_EQ(rig_.EvictHost(), 1u);
}

TEST_F(GpuLossTest, ACopyThatFailsOnADeviceThatIsNotLostHasEnded) {
  rig_.device.FailCopy(kOut, 1);
  EXPECT_EQ(PutInPool(1), 0u);
  EXPECT_EQ(used_slots(), 0u);
  EXPECT_EQ(host_slots(), 0u);
  EXPECT_EQ(PutInPool(1), 1u);
}

}  // namespace
}  // namespace kvtier
