// Tests workers of the GPU pool and their steps: what a worker may still read or write is not given
// to another, and what it has not finished writing is not taken for a block.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;
using testing::TestEngineKey;

constexpr absl::Duration kLong = absl::Seconds(5);

// Steps begins and ends a worker's steps in the worker's signal page.
class Steps {
 public:
  Steps(AgentRig* rig, SessionId session) : page_(*rig->agent->sessions().AttachToGpu(session)) {}
  uint64_t Begin() {
    page_->word(static_cast<size_t>(StepWord::kBegun))->store(++begun_);
    return begun_;
  }
  void End(uint64_t step) { page_->word(static_cast<size_t>(StepWord::kRetired))->store(step); }

 private:
  const SignalPage* const page_;
  uint64_t begun_ = 0;
};

class GpuStepsTest : public ::testing::Test {
 protected:
  // Leases of the first `count` blocks, in the pool.
  std::vector<LeaseId> LeaseOnGpu(SessionId session, size_t count) {
    EXPECT_EQ(rig_.Put(session, 1, count), count);
    std::vector<LeaseId> leases;
    const Onboarded onboarded = *rig_.Run(rig_.Onboard(session, 1, count, kLong, Tier::kGpu));
    for (const LeasedBlock& block : onboarded.blocks) leases.push_back(block.lease);
    EXPECT_EQ(leases.size(), count);
    return leases;
  }
  Reserved ReserveOnGpu(SessionId session, uint64_t first, size_t count) {
    return *rig_.agent->flows().putter.Reserve(rig_.NameRun(session, first, count), Tier::kGpu);
  }
  uint64_t used_slots() const {
    return rig_.agent->gpus().at(0).pool().used_bytes() / kRigBlockBytes;
  }
  std::span<std::byte> Slot(uint64_t offset) {
    return {rig_.agent->gpus().at(0).pool().region()->address() + offset, kRigBlockBytes};
  }

  AgentRig rig_{{.gpu_slots = 2}};
};

// HostStepsTest has workers whose steps write slots of host memory, of which there are eight.
class HostStepsTest : public ::testing::Test {
 protected:
  Reserved Reserve(SessionId session, uint64_t first, size_t count) {
    return *rig_.agent->flows().putter.Reserve(rig_.NameRun(session, first, count), Tier::kHost);
  }
  static std::vector<ReservationId> IdsOf(const Reserved& reserved) {
    std::vector<ReservationId> ids;
    for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
    return ids;
  }
  // Opens a worker's session that begins a step and never ends it, and commits 3 blocks of the step
  // in vain.
  SessionId CommitTooLate() {
    const SessionId slow = rig_.Open(0);
    steps_.emplace(&rig_, slow);
    step_ = steps_->Begin();
    reserved_ = Reserve(slow, 50, 3);
    EXPECT_EQ(rig_.Run(rig_.agent->flows().putter.Commit(slow, IdsOf(reserved_), step_)), 0u);
    return slow;
  }
  // Writes the bytes that the step still had to write into the slots.
  void LandLateWrites(SessionId session) {
    for (const ReservedBlock& block : reserved_.blocks) {
      std::ranges::fill(rig_.Host(session, block.offset), std::byte{0xcd});
    }
  }
  uint64_t late_blocks() const {
    return rig_.agent->sessions().reservations().late_bytes(Tier::kHost) / kRigBlockBytes;
  }

  AgentRig rig_{{.slots = 8, .gpu_slots = 2, .disk = false}};
  std::optional<Steps> steps_;
  uint64_t step_ = 0;
  Reserved reserved_;
};

TEST_F(GpuStepsTest, AReleasedLeasesSlotIsReusedOnlyBehindTheStepThatMayReadIt) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  rig_.agent->sessions().leases().Release(rig_.session, LeaseOnGpu(rig_.session, 2));
  EXPECT_EQ(rig_.EvictGpus(), 2u);
  EXPECT_EQ(used_slots(), 2u) << "its kernels may be reading them";
  EXPECT_EQ(ReserveOnGpu(rig_.session, 50, 1).blocks[0].state, ReservedBlock::State::kNoRoom);
  steps.End(step);
  EXPECT_EQ(ReserveOnGpu(rig_.session, 50, 1).blocks[0].state, ReservedBlock::State::kReserved);
  rig_.agent->Audit();
}

TEST_F(GpuStepsTest, AnExpiredLeaseEndsBehindItsStepToo) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  LeaseOnGpu(rig_.session, 1);
  rig_.Pass(kLeaseDuration + kLeaseGrace + 2 * kSweepInterval);
  EXPECT_EQ(rig_.agent->sessions().leases().size(), 0u);
  EXPECT_EQ(rig_.EvictGpus(), 1u);
  EXPECT_EQ(used_slots(), 1u);
  steps.End(step);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, ASlotGivenBackUnwrittenIsItsWritersUntilTheStepEnds) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  const Reserved reserved = ReserveOnGpu(rig_.session, 1, 1);
  const std::vector<ReservationId> ids = {reserved.blocks[0].id};
  rig_.agent->sessions().reservations().Release(rig_.session, ids);
  EXPECT_EQ(used_slots(), 1u);
  steps.End(step);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, ACommitTakesTheBytesThatAreThereWhenItsStepHasEnded) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  const Reserved reserved = ReserveOnGpu(rig_.session, 1, 1);
  const auto committed =
      rig_.Spawn(rig_.agent->flows().putter.Commit(rig_.session, {reserved.blocks[0].id}, step));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_FALSE(committed->has_value());
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kGpu), 0u);
  const DomainId domain = rig_.NameRun(rig_.session, 1, 1).domain;
  testing::FillBlock(AgentRig::Seed(domain), TestEngineKey(1), Slot(reserved.blocks[0].offset));
  steps.End(step);
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_EQ(*committed, 1u);
  EXPECT_EQ(rig_.Hits(rig_.session, 1, 1), 1u);
}

TEST_F(GpuStepsTest, ABlockWhoseStepDoesNotEndInTimeIsNotCommitted) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  const Reserved reserved = ReserveOnGpu(rig_.session, 1, 1);
  EXPECT_EQ(
      rig_.Run(rig_.agent->flows().putter.Commit(rig_.session, {reserved.blocks[0].id}, step)), 0u);
  rig_.Pass(absl::Milliseconds(1));
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kHost), 0u);
  EXPECT_EQ(used_slots(), 1u) << "it may still be written";
  EXPECT_EQ(rig_.Put(rig_.Open(0), 1, 1), 1u) << "the block may be put by another";
  steps.End(step);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, AStepThatHasNotBegunIsRefused) {
  const Putter& putter = rig_.agent->flows().putter;
  EXPECT_TRUE(absl::IsInvalidArgument(putter.CheckStep(rig_.session, 1))) << "it has no page";
  EXPECT_TRUE(putter.CheckStep(rig_.session, 0).ok());
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  EXPECT_TRUE(putter.CheckStep(rig_.session, step).ok());
  const absl::Status early = putter.CheckStep(rig_.session, step + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(early));
  EXPECT_EQ(early.message(), "step: 2; must have begun, as steps up to 1 have");
}

TEST_F(GpuStepsTest, WhatADyingWorkerMayTouchIsFreeWhenItsProcessIsGone) {
  const SessionId doomed = rig_.Open(0);
  Steps steps(&rig_, doomed);
  steps.Begin();
  LeaseOnGpu(doomed, 1);
  ReserveOnGpu(doomed, 50, 1);
  rig_.agent->CloseSession(doomed);
  EXPECT_EQ(rig_.EvictGpus(), 1u) << "nobody has a lease on it";
  rig_.Pass(absl::Seconds(20));
  EXPECT_EQ(used_slots(), 2u) << "its kernels run as long as it does";
  rig_.agent->sessions().ProcessGone(doomed);
  EXPECT_EQ(used_slots(), 0u);
  EXPECT_EQ(rig_.agent->gpus().at(0).workers().size(), 0u);
  rig_.agent->sessions().ProcessGone(doomed);
  rig_.agent->Audit();
}

TEST_F(GpuStepsTest, ACommitUnderWayEndsWithTheProcessWhoseStepItAwaits) {
  const SessionId doomed = rig_.Open(0);
  Steps steps(&rig_, doomed);
  const uint64_t step = steps.Begin();
  const Reserved reserved = ReserveOnGpu(doomed, 1, 1);
  const auto committed =
      rig_.Spawn(rig_.agent->flows().putter.Commit(doomed, {reserved.blocks[0].id}, step));
  rig_.agent->CloseSession(doomed);
  rig_.agent->sessions().ProcessGone(doomed);
  rig_.Pass(absl::Milliseconds(10));
  EXPECT_EQ(*committed, 0u) << "what it wrote is half a block";
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, AWorkerThatHangsUpWithAllStepsEndedLeavesAtOnce) {
  const SessionId leaving = rig_.Open(0);
  Steps steps(&rig_, leaving);
  steps.End(steps.Begin());
  LeaseOnGpu(leaving, 1);
  rig_.agent->CloseSession(leaving);
  EXPECT_EQ(rig_.agent->gpus().at(0).workers().size(), 0u);
  EXPECT_EQ(rig_.EvictGpus(), 1u);
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, AWorkerThatHangsUpInAStepLeavesWhenItEnds) {
  const SessionId leaving = rig_.Open(0);
  Steps steps(&rig_, leaving);
  const uint64_t step = steps.Begin();
  rig_.agent->CloseSession(leaving);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.agent->gpus().at(0).workers().size(), 1u);
  steps.End(step);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(rig_.agent->gpus().at(0).workers().size(), 0u);
}

TEST_F(GpuStepsTest, ASessionWithoutAPageKeepsNothing) {
  rig_.agent->sessions().leases().Release(rig_.session, LeaseOnGpu(rig_.session, 2));
  EXPECT_EQ(rig_.EvictGpus(), 2u);
  EXPECT_EQ(used_slots(), 0u);
}

TEST_F(GpuStepsTest, APageIsTheSessionsOwnAndItsPlaceOneOfAFew) {
  std::vector<SessionId> sessions;
  for (uint32_t i = 1; i < kMaxPoolWorkers; ++i) {
    sessions.push_back(rig_.Open(0));
    ASSERT_TRUE(rig_.agent->sessions().AttachToGpu(sessions.back()).ok());
  }
  EXPECT_EQ(*rig_.agent->sessions().AttachToGpu(sessions[0]),
            *rig_.agent->sessions().AttachToGpu(sessions[0]));
  EXPECT_NE(*rig_.agent->sessions().AttachToGpu(sessions[0]),
            *rig_.agent->sessions().AttachToGpu(sessions[1]));
  EXPECT_TRUE(absl::IsResourceExhausted(rig_.agent->sessions().AttachToGpu(rig_.session).status()));
  rig_.agent->CloseSession(sessions[0]);
  EXPECT_TRUE(rig_.agent->sessions().AttachToGpu(rig_.session).ok());
  EXPECT_TRUE(absl::IsNotFound(rig_.agent->sessions().AttachToGpu(sessions[0]).status()))
      << "it is closed";
  EXPECT_TRUE(absl::IsNotFound(rig_.agent->sessions().AttachToGpu(rig_.Open(1)).status()))
      << "the pool is another tenant's";
}

// Regression: the agent freed the slot when the commit's time was up. The next worker put its block
// there, the first worker's step then wrote its last bytes over that block, and a hit returned
// them.
TEST_F(HostStepsTest, ASlotWhoseCommitTimedOutIsNotGivenToTheNextWorker) {
  const SessionId slow = CommitTooLate();
  EXPECT_EQ(late_blocks(), 3u);
  const size_t put = rig_.Put(rig_.session, 1, 8);
  LandLateWrites(slow);
  EXPECT_EQ(put, 5u) << "all that is left";
  EXPECT_EQ(rig_.Hits(rig_.session, 1, put), put);
  EXPECT_EQ(rig_.Put(rig_.session, 50, 3), 3u) << "its blocks may be put by another";
  rig_.agent->Audit();
}

TEST_F(HostStepsTest, ItIsFreeWhenTheStepHasEnded) {
  CommitTooLate();
  steps_->End(step_);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(late_blocks(), 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig_.Put(rig_.session, 1, 8), 8u);
}

// A client gives its slots back at once when nothing was committed, while its step still writes.
TEST_F(HostStepsTest, GivingItBackDoesNotEndTheStepThatWritesIt) {
  const SessionId slow = CommitTooLate();
  rig_.agent->sessions().reservations().Release(slow, IdsOf(reserved_));
  rig_.agent->sessions().reservations().Release(slow, IdsOf(reserved_));
  EXPECT_EQ(late_blocks(), 3u);
  EXPECT_EQ(rig_.Put(rig_.session, 1, 8), 5u);
  steps_->End(step_);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(late_blocks(), 0u);
  rig_.agent->Audit();
}

TEST_F(HostStepsTest, ASlotGivenBackInAStepIsFreeBehindThatStepAndNotTheNext) {
  Steps steps(&rig_, rig_.session);
  const uint64_t first = steps.Begin();
  const Reserved reserved = Reserve(rig_.session, 1, 2);
  rig_.agent->sessions().reservations().Release(rig_.session, IdsOf(reserved));
  EXPECT_EQ(late_blocks(), 2u);
  EXPECT_EQ(Reserve(rig_.Open(0), 1, 2).blocks[1].state, ReservedBlock::State::kReserved);
  steps.Begin();
  steps.End(first);
  rig_.Pass(2 * kSweepInterval);
  EXPECT_EQ(late_blocks(), 0u);
}

TEST_F(HostStepsTest, AClientThatGaveUpWaitingForItsCommitDoesNotFreeItsSlots) {
  Steps steps(&rig_, rig_.session);
  const uint64_t step = steps.Begin();
  const std::vector<ReservationId> ids = IdsOf(Reserve(rig_.session, 1, 2));
  const auto committed = rig_.Spawn(rig_.agent->flows().putter.Commit(rig_.session, ids, step));
  rig_.agent->sessions().reservations().Release(rig_.session, ids);
  EXPECT_EQ(rig_.agent->host().used_bytes(), 2 * kRigBlockBytes);
  EXPECT_EQ(rig_.Run(rig_.agent->flows().putter.Commit(rig_.session, ids)), 0u)
      << "it is committed";
  steps.End(step);
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_EQ(*committed, 2u);
}

TEST_F(HostStepsTest, WhatACommitAwaitsAtTheHangupIsWhatTheWorkerMayStillWrite) {
  const SessionId doomed = rig_.Open(0);
  Steps steps(&rig_, doomed);
  const uint64_t step = steps.Begin();
  const auto committed =
      rig_.Spawn(rig_.agent->flows().putter.Commit(doomed, IdsOf(Reserve(doomed, 1, 2)), step));
  EXPECT_TRUE(rig_.agent->CloseSession(doomed));
  rig_.Pass(kCommitTimeout + 2 * kSweepInterval);
  EXPECT_EQ(*committed, 0u);
  EXPECT_EQ(late_blocks(), 2u);
  rig_.agent->sessions().WritesOver(doomed);
  EXPECT_EQ(late_blocks(), 2u) << "its words say that the step runs";
  rig_.agent->sessions().ProcessGone(doomed);
  EXPECT_EQ(late_blocks(), 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  rig_.agent->Audit();
}

TEST_F(HostStepsTest, ACommitWhoseWorkerDiesInItsStepIsNone) {
  const SessionId doomed = rig_.Open(0);
  Steps steps(&rig_, doomed);
  const uint64_t step = steps.Begin();
  const auto committed =
      rig_.Spawn(rig_.agent->flows().putter.Commit(doomed, IdsOf(Reserve(doomed, 1, 2)), step));
  rig_.agent->CloseSession(doomed);
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.Put(rig_.session, 10, 8), 6u) << "it is dying, and not dead";
  rig_.agent->sessions().ProcessGone(doomed);
  rig_.Pass(absl::Milliseconds(10));
  EXPECT_EQ(*committed, 0u);
  EXPECT_EQ(rig_.agent->sessions().reservations().size(), 0u);
  EXPECT_EQ(rig_.agent->host().used_bytes(), 6 * kRigBlockBytes);
}

}  // namespace
}  // namespace kvtier
