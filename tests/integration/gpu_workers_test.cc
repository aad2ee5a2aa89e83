// Tests workers of the GPU pool as processes: what they may still touch is not given to others, and
// comes back when they are gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kGivenBackWithin = absl::Seconds(1);
constexpr uint64_t kSlotBytes = uint64_t{64} << 10;

// A pool of 16 slots, half of which a doomed worker takes: four to read, four to write.
class GpuWorkersTest : public ::testing::Test {
 protected:
  void StartDoomed(const std::string& manner) {
    ASSERT_EQ(worker_.Put({.first = 100, .count = 4}, through_gpu_), 4);
    absl::StatusOr<std::unique_ptr<ChildProcess>> doomed = ChildProcess::Start(
        {ProgramPath("kvtier-holding-worker"), agent_.socket_dir(), "100", "4", "200", "4", manner},
        log_);
    ASSERT_EQ(doomed.status(), absl::OkStatus());
    doomed_ = *std::move(doomed);
    ASSERT_TRUE(Await(absl::Seconds(10), [&] {
      return FileTail(log_, 200).find("holds 4 leases, 4 reservations") != std::string::npos;
    }));
  }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kSlotBytes; }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
  const std::string log_ = absl::StrCat(cluster_.run_dir(), "/worker.log");
  const ReserveOptions through_gpu_ = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  std::unique_ptr<ChildProcess> doomed_;
};

TEST_F(GpuWorkersTest, AKilledWorkersSlotsAreBackWhenItsProcessIsGone) {
  StartDoomed("gpu");
  EXPECT_EQ(agent_.EvictUnheld(Tier::kGpu).evicted_blocks(), 0);
  EXPECT_EQ(UsedSlots(), 8);
  doomed_->Signal(SIGKILL);
  EXPECT_TRUE(Await(kGivenBackWithin, [&] { return UsedSlots() == 4; }));
  EXPECT_EQ(agent_.Evict(Tier::kGpu).evicted_blocks(), 4);
  EXPECT_EQ(UsedSlots(), 0);
  EXPECT_EQ(worker_.Put({.first = 300, .count = 16}, through_gpu_), 16);
}

// The worker's session has ended, but the work that the worker began on the device goes on.
TEST_F(GpuWorkersTest, AWorkerThatHungUpWithinAStepKeepsItsSlotsWhileItLives) {
  StartDoomed("gpu-hangup");
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return agent_.Status().sessions() == 1; }));
  EXPECT_EQ(agent_.Evict(Tier::kGpu).evicted_blocks(), 4);
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).late_bytes(), 4 * kSlotBytes);
  EXPECT_EQ(UsedSlots(), 8);
  EXPECT_EQ(worker_.Put({.first = 300, .count = 16}, through_gpu_), 8);
  doomed_->Kill();
  EXPECT_TRUE(
      Await(kGivenBackWithin, [&] { return agent_.TierStatus(Tier::kGpu).late_bytes() == 0; }));
  EXPECT_LE(UsedSlots(), 8);  // 7, if the agent looked for slots to spare while all were in use.
  EXPECT_EQ(worker_.Put({.first = 400, .count = 8}, through_gpu_), 8);
}

TEST_F(GpuWorkersTest, ACommitWaitsForTheStepThatWritesItsBytes) {
  const uint64_t step = worker_.client().BeginStep();
  ASSERT_GT(step, 0);
  const Blocks blocks = {.first = 100, .count = 2};
  auto reserved = worker_.client().Reserve(worker_.space(), worker_.KeysOf(blocks), through_gpu_);
  ASSERT_TRUE(reserved.ok());
  const std::span<std::byte> slots[] = {reserved->slot(0), reserved->slot(1)};
  const auto mapped = reserved->keep_mapped();
  std::atomic<size_t> committed = 0;
  std::atomic<bool> done = false;
  ASSERT_TRUE(worker_.client()
                  .SubmitCommit(*std::move(reserved),
                                [&](size_t count) {
                                  committed = count;
                                  done = true;
                                },
                                {.step = step})
                  .ok());
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).blocks(), 0);
  for (size_t i = 0; i < 2; ++i) worker_.Fill(blocks.first + i, slots[i]);
  EXPECT_FALSE(done);
  worker_.client().EndStep(step);
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return done.load(); }));
  EXPECT_EQ(committed, 2);
  EXPECT_THAT(worker_.Get(blocks), SizeIs(2));
  EXPECT_THAT(worker_.Get(blocks, to_gpu_), AllOf(SizeIs(2), Each(BlockSource::kGpu)));
}

TEST_F(GpuWorkersTest, ACommitOfAStepThatHasNotBegunIsNone) {
  auto reserved = worker_.client().Reserve(
      worker_.space(), worker_.KeysOf({.first = 100, .count = 1}), through_gpu_);
  ASSERT_TRUE(reserved.ok());
  EXPECT_EQ(reserved->Commit({.step = 7}), 0);
  EXPECT_THAT(worker_.client().Stats().last_error, HasSubstr("step: 7; must have begun"));
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).blocks(), 0);
}

// A handle has 1 GiB: 1024 slots of 1 MiB, and the pool goes on in the next one.
TEST(GpuPoolTest, APoolOfSeveralHandlesIsMappedWhole) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(
      "node-a", {{"gpu_bytes", "1280MiB"},
                 {"gpu_block_bytes", "1MiB"},
                 {"device", "emulated"},
                 {"disk_write_moment", "eviction"}});  // Promises fit half of host memory.
  TestWorker worker({.socket_dir = agent.socket_dir(), .block_bytes = uint64_t{1} << 20});
  const auto gpu = worker.client().gpu_memory();
  ASSERT_NE(gpu, nullptr);
  EXPECT_EQ(gpu->handles.size(), 2);
  EXPECT_EQ(gpu->max_handles, 2);
  EXPECT_EQ(gpu->handle_bytes, uint64_t{1} << 30);
  // Slots that are reserved and not written take no memory.
  const ReserveOptions through_gpu = {.target = OnboardTarget::kGpu};
  const auto first = worker.client().Reserve(
      worker.space(), worker.KeysOf({.first = 1000, .count = 1024}), through_gpu);
  ASSERT_TRUE(first.ok());
  ASSERT_EQ(first->reserved(), 1024);
  const Blocks beyond = {.first = 100, .count = 3};
  EXPECT_EQ(worker.Put(beyond, through_gpu), 3);
  EXPECT_THAT(worker.Get(beyond, {.target = OnboardTarget::kGpu}),
              AllOf(SizeIs(3), Each(BlockSource::kGpu)));
  EXPECT_THAT(worker.Get(beyond), SizeIs(3));
}

}  // namespace
}  // namespace kvtier::testing
