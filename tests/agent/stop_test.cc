// Tests stops of agents: every call that waits is answered at once, as at its deadline, and work in
// flight goes on after the answers.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "agent/limits.h"
#include "tests/agent/agent_rig.h"

namespace kvtier {
namespace {

using testing::AgentRig;
using testing::kRigBlockBytes;

constexpr absl::Duration kLong = absl::Seconds(5);
// No call in this test waits longer than this.
constexpr absl::Duration kMoment = absl::Milliseconds(1);
static_assert(kMoment < kSweepInterval);

class StopTest : public ::testing::Test {
 protected:
  static Task<void> Stop(Agent* agent, absl::Time deadline, std::optional<bool>* idle) {
    *idle = co_await agent->Stop(deadline);
  }
  ~StopTest() override { rig_.agent->Audit(); }
  // Begins a step of the rig's session that does not end.
  uint64_t BeginStep() {
    const SignalPage* const page = *rig_.agent->sessions().AttachToGpu(rig_.session);
    page->word(static_cast<size_t>(StepWord::kBegun))->store(1);
    return 1;
  }
  std::vector<ReservationId> Reserve(uint64_t first, size_t count, Tier target) {
    std::vector<ReservationId> ids;
    const Reserved reserved =
        *rig_.agent->flows().putter.Reserve(rig_.NameRun(rig_.session, first, count), target);
    for (const ReservedBlock& block : reserved.blocks) ids.push_back(block.id);
    return ids;
  }
  // Stops the agent from outside of its own flows, as the program does, and returns the virtual
  // time that took.
  absl::Duration TimeToStop() {
    const absl::Time asked = rig_.time.Now();
    std::optional<bool> idle;
    TaskScope stopping(&rig_.executor);
    stopping.Spawn(Stop(rig_.agent.get(), asked + absl::Seconds(10), &idle));
    while (!idle.has_value()) KVT_CHECK(rig_.time.Step());
    EXPECT_EQ(idle, true);
    return rig_.time.Now() - asked;
  }

  AgentRig rig_{{.gpu_slots = 4, .gpu_max_slots = 4, .sealed = true}};
};

// Regression: after SIGTERM the agent waited 9.8 s for a commit with a timeout of 10 s.
TEST_F(StopTest, ACommitThatWaitsForItsStepIsAnsweredWhenTheAgentStops) {
  const uint64_t step = BeginStep();
  std::vector<ReservationId> ids = Reserve(1, 2, Tier::kGpu);
  for (const ReservationId id : Reserve(10, 2, Tier::kHost)) ids.push_back(id);
  const auto commit = rig_.Spawn(rig_.agent->flows().putter.Commit(rig_.session, ids, step));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_FALSE(commit->has_value());
  rig_.agent->EndWaits();
  rig_.Pass(kMoment);
  EXPECT_EQ(*commit, 0u);
  EXPECT_EQ(rig_.agent->gpus().at(0).pool().used_bytes(), 2 * kRigBlockBytes)
      << "the step may still write";
  EXPECT_EQ(rig_.agent->host().used_bytes(), 2 * kRigBlockBytes);
  EXPECT_LT(TimeToStop(), absl::Seconds(1));
}

TEST_F(StopTest, StopAloneEndsTheWaitsToo) {
  const auto commit = rig_.Spawn(
      rig_.agent->flows().putter.Commit(rig_.session, Reserve(1, 1, Tier::kGpu), BeginStep()));
  rig_.Pass(kMoment);
  EXPECT_LT(TimeToStop(), absl::Seconds(1));
  EXPECT_EQ(*commit, 0u);
}

TEST_F(StopTest, ACommitWhoseCopiesStallIsAnsweredAndPublishedLater) {
  rig_.device.Stall(Lane::kOffload);
  const auto commit =
      rig_.Spawn(rig_.agent->flows().putter.Commit(rig_.session, Reserve(1, 1, Tier::kGpu)));
  rig_.Pass(absl::Milliseconds(50));
  rig_.agent->EndWaits();
  rig_.Pass(kMoment);
  EXPECT_EQ(*commit, 0u);
  rig_.device.Resume(Lane::kOffload);
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_EQ(rig_.agent->index().blocks_in(Tier::kGpu), 1u);
}

TEST_F(StopTest, AnOnboardIsAnsweredWithWhatIsThere) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4u);
  ASSERT_EQ(rig_.EvictHost(), 4u);
  ASSERT_EQ(rig_.Hits(rig_.session, 1, 2), 2u);
  rig_.disk.Stall();
  const auto onboard = rig_.Spawn(rig_.Onboard(rig_.session, 1, 4, kLong));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_FALSE(onboard->has_value());
  rig_.agent->EndWaits();
  rig_.Pass(kMoment);
  ASSERT_TRUE(onboard->has_value());
  EXPECT_EQ((*onboard)->value().blocks.size(), 2u);
}

TEST_F(StopTest, APeerThatWaitsForADiskIsAnswered) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 1), 1u);
  ASSERT_EQ(rig_.EvictHost(), 1u);
  rig_.disk.Stall();
  const BlockKey key = rig_.NameRun(rig_.session, 1, 1).keys[0];
  const auto served =
      rig_.Spawn(rig_.agent->flows().peer_server.Serve(DomainId{}, key, rig_.time.Now() + kLong));
  rig_.Pass(absl::Milliseconds(50));
  EXPECT_FALSE(served->has_value());
  rig_.agent->EndWaits();
  rig_.Pass(kMoment);
  ASSERT_TRUE(served->has_value());
  EXPECT_FALSE((*served)->has_value());
}

TEST_F(StopTest, AResizeThatWaitsForAWorkerIsAnsweredAndEnds) {
  Reserve(1, 4, Tier::kGpu);
  ASSERT_EQ(
      rig_.agent->gpus().at(0).resizer().Begin(rig_.agent->gpus().at(0).pool().handle_bytes()),
      absl::OkStatus());
  const auto end =
      rig_.Spawn(rig_.agent->gpus().at(0).resizer().AwaitEnd(rig_.time.Now() + kGpuResizeWait));
  rig_.agent->EndWaits();
  rig_.Pass(2 * kSweepInterval);
  EXPECT_TRUE(end->has_value());
  EXPECT_TRUE(absl::IsUnavailable(
      rig_.agent->gpus().at(0).resizer().Begin(rig_.agent->gpus().at(0).pool().handle_bytes())));
}

// The erase goes on at the disks after its caller was answered.
TEST_F(StopTest, AnEraseIsAnsweredAndGoesOn) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4u);
  const auto erase = rig_.Spawn(
      rig_.agent->flows().tenant_eraser.EraseBy("default", rig_.time.Now() + kMaxRequestTimeout));
  ASSERT_FALSE(erase->has_value());
  rig_.agent->EndWaits();
  rig_.Pass(absl::ZeroDuration());
  ASSERT_TRUE(erase->has_value());
  EXPECT_TRUE(absl::IsUnavailable((*erase)->status()));
  EXPECT_EQ((*erase)->status().message(),
            "tenant 'default' may not be erased yet: the agent is stopping; call again when it has "
            "restarted");
  EXPECT_LT(TimeToStop(), absl::Seconds(1));
  EXPECT_EQ(rig_.agent->disks().set()->block_count(), 0u);
}

TEST_F(StopTest, AnEraseThatTakesTooLongSaysThatItsEndIsNotKnown) {
  ASSERT_EQ(rig_.PutOnDisk(rig_.session, 1, 4), 4u);
  const absl::Time deadline = rig_.time.Now() + absl::Nanoseconds(1);
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      rig_.Run(rig_.agent->flows().tenant_eraser.EraseBy("default", deadline)).status()));
}

}  // namespace
}  // namespace kvtier
