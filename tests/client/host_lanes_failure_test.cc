// Tests what lanes of host memory do when the agent, the bytes or the caller fail: a miss, nothing
// published, nothing kept, and no call blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "client/host_lanes/host_offload.h"
#include "client/host_lanes/host_onboard.h"
#include "tests/client/host_rig.h"

namespace kvtier {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using testing::EndOf;
using testing::Eventually;
using testing::FakeAgent;
using testing::HostRig;
using testing::LayoutSize;
using testing::Patience;
using testing::ResultsOf;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

constexpr LayoutSize kSize = {.layers = 2, .slots = 16, .run_bytes = 4096, .start = 0};

class HostLanesFailureTest : public ::testing::Test {
 protected:
  HostLanesFailureTest() : lanes_(rig_.Open(&memory_)), space_(rig_.SpaceOf(memory_)) {
    for (uint32_t slot = 0; slot < 8; ++slot) memory_.Compute(slot, slot);
  }
  auto Offload(size_t count = 3) {
    return lanes_->Offload(TestKeys(1, count), {}, Slots(0, count));
  }
  auto Onboard(size_t count = 3) {
    return lanes_->Onboard(TestKeys(1, count), Slots(8, count), Patience(testing::kLong));
  }
  // Returns parts of lanes whose copies the test makes itself, step by step.
  HostParts Parts() { return {.client = &rig_.client(), .tensors = &tensors_, .queue = queue_}; }
  std::shared_ptr<HostJob> Admitted(HostDirection direction, uint32_t first_slot) {
    auto job = std::make_shared<HostJob>(direction, Slots(first_slot, 3));
    EXPECT_EQ(queue_->Admit(job), absl::OkStatus());
    return job;
  }
  uint64_t CopiedBlocks() const { return lanes_->StatsOf(HostDirection::kOnboard).blocks; }
  OnboardedBlocks Leased() { return *rig_.client().Onboard(space_, TestKeys(1, 3)); }
  void KillAgent() {
    rig_.agent().Kill();
    EXPECT_TRUE(Eventually([this] { return !rig_.client().connected(); }));
  }

  HostRig rig_{{.part_blocks = 3}};
  TensorMemory memory_{testing::PerLayerLayout, kSize};
  std::unique_ptr<HostLanes> lanes_;
  const SpaceHandle space_;
  HostScratch scratch_;
  HostTensors tensors_ = *HostTensors::Of(memory_.tensors(), memory_.space());
  std::shared_ptr<HostQueue> queue_ = std::make_shared<HostQueue>(kSize.slots);
};

TEST_F(HostLanesFailureTest, WithoutAnAgentJobsHaveFailedAtOnce) {
  KillAgent();
  for (const auto& job : {Offload(), Onboard()}) {
    EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT((*job)->results(), Each(false));
  }
}

TEST_F(HostLanesFailureTest, AStuckAgentDelaysTheJobsAndNotTheCalls) {
  ASSERT_EQ(EndOf(Offload()), absl::OkStatus());
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto in = Onboard();
  const auto out = lanes_->Offload(TestKeys(50, 2), {}, Slots(0, 2));
  ASSERT_TRUE(in.ok() && out.ok());
  EXPECT_TRUE(Eventually([this] { return rig_.agent().Counts().hanging == 2; }));
  EXPECT_FALSE((*in)->done() || (*out)->done() || (*out)->copied());
  rig_.agent().Resume();
  EXPECT_THAT(ResultsOf(in), Each(true));
  EXPECT_THAT(ResultsOf(out), Each(true));
}

TEST_F(HostLanesFailureTest, AnAgentThatIsKilledMeanwhileEndsTheJobs) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto in = Onboard();
  const auto out = Offload();
  EXPECT_TRUE(Eventually([this] { return rig_.agent().Counts().hanging == 2; }));
  rig_.agent().Kill();
  EXPECT_EQ(EndOf(in).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(EndOf(out).code(), absl::StatusCode::kUnavailable);
}

TEST_F(HostLanesFailureTest, WhatIsReadyIsCopiedWhileTheRestIsOnItsWay) {
  ASSERT_EQ(EndOf(Offload(6)), absl::OkStatus());
  rig_.agent().HangCalls(FakeAgent::Hang::kParts);
  const auto job = Onboard(6);
  EXPECT_TRUE(Eventually([this] { return CopiedBlocks() == 3; }));
  EXPECT_TRUE(memory_.Holds(8, 0) && memory_.Holds(9, 1));
  EXPECT_FALSE((*job)->done());
  rig_.agent().Resume();
  EXPECT_THAT(ResultsOf(job), Each(true));
  EXPECT_TRUE(memory_.Holds(13, 5));
}

TEST_F(HostLanesFailureTest, AnAgentThatIsKilledBetweenPartsTakesTheRestOnly) {
  ASSERT_EQ(EndOf(Offload(6)), absl::OkStatus());
  rig_.agent().HangCalls(FakeAgent::Hang::kParts);
  const auto job = Onboard(6);
  ASSERT_TRUE(Eventually([this] { return CopiedBlocks() == 3; }));
  rig_.agent().Kill();
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT((*job)->results(), ElementsAre(true, true, true, false, false, false));
  EXPECT_TRUE(memory_.Holds(8, 0) && memory_.Holds(9, 1));
}

TEST_F(HostLanesFailureTest, ADamagedBlockFailsAndTheOthersArrive) {
  ASSERT_EQ(EndOf(Offload()), absl::OkStatus());
  {
    const OnboardedBlocks hit = Leased();
    auto bytes = *rig_.client().host_memory().write->Write(hit.offset(1), hit.bytes(1).size());
    bytes[5000] ^= std::byte{4};
  }
  const auto job = Onboard();
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*job)->results(), ElementsAre(true, false, true));
  EXPECT_TRUE(memory_.Holds(8, 0) && memory_.Holds(10, 2));
  EXPECT_EQ(lanes_->StatsOf(HostDirection::kOnboard).failed_blocks, 1U);
  EXPECT_TRUE(Eventually([this] { return rig_.agent().Counts().damage_reports == 1; }));
}

TEST_F(HostLanesFailureTest, ALeaseThatEndsDuringTheCopyVoidsWhatIsCopiedThen) {
  ASSERT_EQ(EndOf(Offload()), absl::OkStatus());
  const auto job = Admitted(HostDirection::kOnboard, 8);
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  const KeySequence run = {.space = space_, .keys = keys};
  ASSERT_EQ(std::make_shared<HostOnboard>(Parts(), job, run, absl::InfiniteFuture())->Begin(),
            absl::OkStatus());
  const std::unique_ptr<HostCopy> copy = queue_->Take();
  EXPECT_GT(copy->CopyNext(&scratch_), 0U);
  KillAgent();
  EXPECT_GT(copy->CopyNext(&scratch_), 0U);
  EXPECT_EQ(copy->CopyNext(&scratch_), 0U) << "the rest is not even copied";
  copy->Finish();
  ASSERT_TRUE(job->Wait(Patience(testing::kLong)));
  EXPECT_EQ(job->status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(job->results(), ElementsAre(true, false, false));
}

TEST_F(HostLanesFailureTest, ASessionThatEndsBeforeTheCommitPublishesNothing) {
  const auto job = Admitted(HostDirection::kOffload, 0);
  HostOffload::Begin(Parts(), job, *rig_.client().Reserve(space_, TestKeys(1, 3)));
  const std::unique_ptr<HostCopy> copy = queue_->Take();
  while (copy->CopyNext(&scratch_) > 0) continue;
  KillAgent();
  copy->Finish();
  EXPECT_TRUE(job->copied());
  ASSERT_TRUE(job->Wait(Patience(testing::kLong)));
  EXPECT_EQ(job->status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(job->results(), Each(false));
  EXPECT_EQ(queue_->StatsOf(HostDirection::kOffload).failed_blocks, 3U);
}

TEST_F(HostLanesFailureTest, WhatWasAskedBackWhileItWasReadIsNotPublished) {
  const auto job = Admitted(HostDirection::kOffload, 0);
  HostOffload::Begin(Parts(), job, *rig_.client().Reserve(space_, TestKeys(1, 3)));
  std::unique_ptr<HostCopy> copy = queue_->Take();
  EXPECT_GT(copy->CopyNext(&scratch_), 0U);
  EXPECT_FALSE(queue_->AwaitCopied(Slots(2, 1), absl::ZeroDuration()));
  memory_.Compute(2, 99);  // An engine may do this, since it has the slot back.
  while (copy->CopyNext(&scratch_) > 0) continue;
  copy->Finish();
  copy.reset();
  ASSERT_TRUE(job->Wait(Patience(testing::kLong)));
  EXPECT_EQ(job->status().code(), absl::StatusCode::kAborted);
  EXPECT_THAT(job->results(), ElementsAre(true, true, false));
  EXPECT_TRUE(rig_.HoldsNothing());
  EXPECT_EQ(rig_.agent().Counts().blocks, 2U);
}

TEST_F(HostLanesFailureTest, SlotsThatWaitForTheAgentAreGivenUpInTime) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto job = Offload();
  EXPECT_TRUE(*lanes_->AwaitCopied(Slots(8, 3), absl::ZeroDuration()));
  EXPECT_FALSE(*lanes_->AwaitCopied(Slots(2, 3), absl::Milliseconds(1)));
  EXPECT_FALSE(*lanes_->AwaitCopied(Slots(0, 2), absl::Milliseconds(1)));
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(lanes_->StatsOf(HostDirection::kOffload).given_up_blocks, 3U);
  rig_.agent().Resume();
  EXPECT_TRUE(rig_.HoldsNothing());
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
}

TEST_F(HostLanesFailureTest, SlotsThatWaitForTheAgentAreGivenUpAndTheirNeighboursStored) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto job = Offload();
  EXPECT_FALSE(*lanes_->AwaitCopied(Slots(1, 1), absl::Milliseconds(1)));
  rig_.agent().Resume();
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kAborted);
  EXPECT_THAT((*job)->results(), ElementsAre(true, false, true));
  EXPECT_EQ(rig_.agent().Counts().blocks, 2U);
}

TEST_F(HostLanesFailureTest, BeyondItsPlacesADirectionRefusesAndNeverWaits) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  std::vector<std::shared_ptr<HostJob>> jobs;
  absl::Status refused;
  while (refused.ok()) {
    const auto job = Onboard(1);
    refused = job.status();
    if (job.ok()) jobs.push_back(*job);
    ASSERT_LE(jobs.size(), kMaxHostJobs);
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  rig_.agent().Resume();
  for (const auto& job : jobs) EXPECT_THAT(ResultsOf(job), ElementsAre(false));
  EXPECT_THAT(ResultsOf(Onboard(1)), ElementsAre(false));
}

TEST_F(HostLanesFailureTest, TheLanesEndWhatIsUnderWay) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto in = Onboard();
  const auto out = Offload();
  lanes_.reset();
  for (const auto& job : {in, out}) {
    ASSERT_TRUE((*job)->done());
    EXPECT_EQ((*job)->status().code(), absl::StatusCode::kCancelled);
  }
  rig_.agent().Resume();
  EXPECT_TRUE(rig_.HoldsNothing());
}

TEST_F(HostLanesFailureTest, ClosedLanesLetWaitersGoAndStartNothing) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto out = Offload();
  std::thread waiter(
      [this] { EXPECT_TRUE(*lanes_->AwaitCopied(Slots(0, 3), Patience(testing::kLong))); });
  lanes_->Close();
  waiter.join();
  EXPECT_EQ(EndOf(out).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(Onboard().status().code(), absl::StatusCode::kFailedPrecondition);
  lanes_->Close();
  rig_.agent().Resume();
}

TEST_F(HostLanesFailureTest, AForkedChildHasFailedJobsAndWaitsForNobody) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto before = Onboard();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    const auto job = Offload();
    const bool failed = (*before)->Wait(absl::ZeroDuration()) && !(*before)->status().ok() &&
                        (*job)->done() && (*job)->results() == std::vector<bool>(3) &&
                        *lanes_->AwaitCopied(Slots(0, 3), absl::ZeroDuration());
    const bool refused =
        absl::IsUnavailable(HostLanes::Open(&rig_.client(), space_, memory_.tensors()).status());
    lanes_.reset();
    _exit(failed && refused ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  rig_.agent().Resume();
  EXPECT_THAT(ResultsOf(before), Each(false));
  EXPECT_THAT(ResultsOf(Offload()), Each(true));
}

}  // namespace
}  // namespace kvtier
