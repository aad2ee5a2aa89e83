// Tests what a worker's lanes do when the device, the agent or the compute fails: a miss, nothing
// published, nothing kept.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "absl/synchronization/notification.h"
#include "tests/client/lanes_rig.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::EndOf;
using testing::Eventually;
using testing::FaultyDevice;
using testing::LanesRig;
using testing::LayoutSize;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr LayoutSize kSize = {.layers = 8, .slots = 16, .run_bytes = 64 << 10, .start = 0};

class WorkerPoolFailureTest : public ::testing::Test {
 protected:
  explicit WorkerPoolFailureTest(testing::FakeAgentOptions agent = {}) : rig_({}, agent) {
    pool_ = rig_.Register(&memory_);
    for (uint32_t slot = 0; slot < 8; ++slot) memory_.Compute(slot, slot);
  }
  auto Offload(const OffloadOptions& options = {}) {
    return pool_->Offload({TestKeys(1, 8), Slots(0, 8)}, options);
  }
  auto Onboard(PlanOrder order = PlanOrder::kWhole) {
    return pool_->Onboard({TestKeys(1, 8), Slots(8, 8)}, {.order = order});
  }
  // Starts an onboard that holds its lease while the lane is stalled.
  std::shared_ptr<LaneJob> OnboardStalled() {
    rig_.OnDevice([](FaultyDevice& device) { device.Stall(Lane::kOnboard); });
    auto job = Onboard(PlanOrder::kLayerWise);
    EXPECT_TRUE(job.ok() && Eventually([&] { return (*job)->coming().has_value(); }));
    return *job;
  }
  void Resume(Lane lane) {
    rig_.OnDevice([lane](FaultyDevice& device) { device.Resume(lane); });
  }
  void ExpectNothingHeld() {
    EXPECT_TRUE(Eventually([&] {
      const testing::FakeAgentCounts counts = rig_.agent().Counts();
      return counts.leases == 0 && counts.reservations == 0;
    }));
  }

  TensorMemory memory_{testing::PerLayerLayout, kSize};
  LanesRig rig_;
  std::unique_ptr<WorkerPool> pool_;
};

TEST_F(WorkerPoolFailureTest, AnOffloadWhoseCopyFailsPublishesNothing) {
  rig_.OnDevice([](FaultyDevice& device) { device.FailCopy(kOut, 1); });
  const auto job = Offload();
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*job)->blocks(), 0U);
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
  ExpectNothingHeld();
  EXPECT_EQ(BlocksOf(Offload()), 8U) << "the next one is as good as any";
}

TEST_F(WorkerPoolFailureTest, AnOnboardWhoseCopyFailsIsNotBelievedAndReleasesItsWaiters) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  rig_.OnDevice([](FaultyDevice& device) { device.FailCopy(kIn, 3); });
  const auto job = Onboard(PlanOrder::kLayerWise);
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ((*job)->blocks(), 0U);
  const uint32_t ready = (*job)->layers_ready();
  EXPECT_LT(ready, kSize.layers);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(memory_.Holds(8 + i, i, 0, ready));
  const LayerMark last = (*job)->mark(kSize.layers);
  EXPECT_TRUE(Eventually([&] { return last.word->load() >= last.value; }));
  EXPECT_EQ((*job)->layers_ready(), ready) << "the mark is raised, the layers are not there";
  ExpectNothingHeld();
  EXPECT_EQ(BlocksOf(Onboard(PlanOrder::kLayerWise)), 8U);
}

// After the commit a stray write changes host memory. The device sums blocks that come whole; the
// lanes' thread sums those that come layer by layer.
TEST_F(WorkerPoolFailureTest, AnOnboardOfBytesThatChangedIsNotBelievedAndTheAgentIsTold) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  Client& client = rig_.client();
  {
    const SpaceHandle space = *client.RegisterSpace(memory_.space());
    const auto stray = client.Reserve(space, TestKeys(100, 1));
    const auto hit = client.Onboard(space, TestKeys(1, 8));
    ASSERT_TRUE(stray.ok() && stray->reserved() == 1 && hit.ok() && hit->size() == 8);
    std::byte* const arena = stray->slot(0).data() - stray->offset(0);
    arena[hit->offset(5) + 17] ^= std::byte{1};
  }
  uint64_t damaged = 0;
  for (const PlanOrder order : {PlanOrder::kWhole, PlanOrder::kLayerWise}) {
    const auto job = Onboard(order);
    EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kDataLoss);
    EXPECT_EQ((*job)->blocks(), 0U);
    EXPECT_EQ(client.Stats().damaged_blocks, ++damaged);
  }
  ExpectNothingHeld();
}

TEST_F(WorkerPoolFailureTest, ALostDeviceEndsWhatRunsAndWhatComes) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const auto running = OnboardStalled();
  rig_.OnDevice([](FaultyDevice& device) { device.Lose(); });
  EXPECT_EQ(EndOf(running).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(EndOf(Onboard()).code(), absl::StatusCode::kUnavailable);
  const auto offload = pool_->Offload({TestKeys(50, 1), Slots(0, 1)});
  EXPECT_EQ(EndOf(offload).code(), absl::StatusCode::kUnavailable);
  ExpectNothingHeld();
  EXPECT_EQ(rig_.agent().Counts().blocks, 8U);
  EXPECT_EQ(WorkerLanes::Open(&rig_.client(), &rig_.device()).status().code(),
            absl::StatusCode::kUnavailable);
}

// If the slots were given back, another worker would get them, and the device would write into that
// worker's block.
TEST_F(WorkerPoolFailureTest, SlotsThatALostDeviceMayStillWriteAreNotGivenBack) {
  rig_.OnDevice([](FaultyDevice& device) { device.LoseInCopy(kOut, 1); });
  EXPECT_EQ(EndOf(Offload()).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(EndOf(pool_->Offload({TestKeys(50, 1), Slots(0, 1)})).code(),
            absl::StatusCode::kUnavailable);
  // Comes after the releases: only the blocks that the device had refused were given back.
  EXPECT_TRUE(Eventually([&] { return rig_.agent().Counts().reservations == 8; }));
  pool_.reset();
  EXPECT_EQ(rig_.agent().Counts().reservations, 8U);
}

TEST_F(WorkerPoolFailureTest, AnAgentThatDiesDuringAnOnboardMakesItVoid) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const auto job = OnboardStalled();
  rig_.agent().Kill();
  Resume(Lane::kOnboard);
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(job->blocks(), 0U);
  EXPECT_EQ(BlocksOf(Onboard()), 0U) << "without an agent all is a miss";
  EXPECT_EQ(BlocksOf(Offload()), 0U);
}

TEST_F(WorkerPoolFailureTest, AnAgentThatDiesDuringAnOffloadPublishesNothing) {
  rig_.OnDevice([](FaultyDevice& device) { device.Stall(Lane::kOffload); });
  const auto job = Offload();
  ASSERT_TRUE(Eventually([&] { return (*job)->coming().has_value(); }));
  rig_.agent().Kill();
  rig_.agent().Start();
  Resume(Lane::kOffload);
  EXPECT_EQ(BlocksOf(job), 0U);
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
}

TEST_F(WorkerPoolFailureTest, AfterAReconnectionTheNewMemoryIsPinnedAndTheOldLetGo) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const std::weak_ptr<const Mapping> old = rig_.client().host_memory().write;
  rig_.agent().Kill();
  rig_.agent().Start();
  ASSERT_TRUE(Eventually([&] {
    const auto now = rig_.client().host_memory().write;
    return now != nullptr && now != old.lock();
  }));
  EXPECT_TRUE(Eventually([&] { return old.expired(); })) << "nobody has asked for a copy";
  ASSERT_TRUE(Eventually([&] { return BlocksOf(Offload()) == 8; }));
  EXPECT_EQ(BlocksOf(Onboard()), 8U);
  EXPECT_TRUE(memory_.Holds(15, 7));
}

// Page-locking an arena takes seconds, during which the lanes must make copies.
TEST_F(WorkerPoolFailureTest, CopiesGoOnWhileTheNextSessionsMemoryIsPinned) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const auto job = OnboardStalled();
  rig_.device().HoldPins(true);
  rig_.agent().Kill();
  rig_.agent().Start();
  ASSERT_TRUE(Eventually([&] { return rig_.device().held_pins() == 1; }));
  absl::Notification resumed;
  std::thread resuming([&] {
    Resume(Lane::kOnboard);
    resumed.Notify();
  });
  EXPECT_TRUE(resumed.WaitForNotificationWithTimeout(testing::Patience(testing::kLong)));
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kAborted) << "its session is over";
  const auto next = Offload();
  EXPECT_EQ(rig_.device().held_pins(), 1U);
  rig_.device().HoldPins(false);
  resuming.join();
  EXPECT_EQ(BlocksOf(next), 8U) << "it waited for the memory";
}

TEST_F(WorkerPoolFailureTest, AComputeThatDoesNotComeToItsMarkEndsTheOffload) {
  const std::shared_ptr<const SignalPage> page = *SignalPage::Create();
  const ComputeMark mark = {.word = page->word(0), .value = 3, .keep = page};
  EXPECT_EQ(EndOf(Offload({.after = mark, .mark_timeout = absl::Milliseconds(5)})).code(),
            absl::StatusCode::kDeadlineExceeded);
  page->Release(0, 1);
  EXPECT_EQ(EndOf(Offload({.after = mark})).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
}

TEST_F(WorkerPoolFailureTest, JobsAreBoundedInEachDirection) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const std::shared_ptr<const SignalPage> page = *SignalPage::Create();
  const ComputeMark mark = {.word = page->word(0), .value = 1, .keep = page};
  std::vector<std::shared_ptr<LaneJob>> jobs;
  for (size_t i = 0; i < WorkerLanes::kMaxJobs; ++i) jobs.push_back(*Offload({.after = mark}));
  EXPECT_EQ(Offload().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(BlocksOf(Onboard()), 8U) << "offloads that wait hold up no onboard";
  page->word(0)->store(1);
  for (const auto& job : jobs) EXPECT_EQ(BlocksOf(job), 0U) << "they are there";
  EXPECT_EQ(BlocksOf(Offload()), 0U) << "a job's place is free when it is done";
}

// The destructors once waited for a thread that the child does not have.
TEST_F(WorkerPoolFailureTest, AForkedChildDropsPoolAndLanesWithoutWaiting) {
  const auto stalled = OnboardStalled();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    pool_.reset();
    rig_.DropLanes();
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Resume(Lane::kOnboard);
  EXPECT_TRUE(stalled->Wait(testing::kLong));
}

TEST_F(WorkerPoolFailureTest, APoolWaitsForItsJobs) {
  ASSERT_EQ(BlocksOf(Offload()), 8U);
  const auto job = *Onboard(PlanOrder::kLayerWise);
  pool_.reset();
  EXPECT_TRUE(job->done());
  EXPECT_TRUE(memory_.Holds(15, 7));
  EXPECT_EQ(job->layers_ready(), kSize.layers);
}

// Fixture whose leases last for 30 ms.
class ShortLeaseTest : public WorkerPoolFailureTest {
 protected:
  ShortLeaseTest() : WorkerPoolFailureTest({.lease = absl::Milliseconds(30)}) {}
};

TEST_F(ShortLeaseTest, ALeaseThatEndsDuringTheCopyMakesItVoid) {
  ASSERT_TRUE(Eventually([&] { return BlocksOf(Offload()) == 8; }));
  const auto job = OnboardStalled();
  const absl::Time leased = absl::Now();
  ASSERT_TRUE(Eventually([&] { return absl::Now() > leased + absl::Milliseconds(40); }));
  Resume(Lane::kOnboard);
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(job->blocks(), 0U);
  ExpectNothingHeld();
}

}  // namespace
}  // namespace kvtier
