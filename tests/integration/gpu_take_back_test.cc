// An agent that is killed and started again takes its GPU pool back from workers that
// live: what they prove is served from its slots, and nothing that they may still touch
// is used again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <memory>
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
using ::testing::Not;
using ::testing::SizeIs;

constexpr uint64_t kSlotBytes = uint64_t{64} << 10;
constexpr Blocks kPrefix = {.first = 100, .count = 8};

// A pool of 16 slots.
class GpuTakeBackTest : public ::testing::Test {
 protected:
  v1::GpuReport Pool() { return agent_.Status().gpus(0); }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kSlotBytes; }
  void KillAndStart() {
    agent_.Kill();
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  }
  // All blocks were looked at, and so many workers may still use what they had.
  bool Settled(size_t earlier_workers) {
    return Await(absl::Seconds(10), [&] {
      const v1::GpuReport pool = Pool();
      return pool.unproved_blocks() == 0 && pool.earlier_workers() == earlier_workers;
    });
  }
  void StartHolder(const std::string& manner) {
    ASSERT_EQ(worker_->Put({.first = 100, .count = 4}, through_gpu_), 4);
    auto holder = ChildProcess::Start(
        {ProgramPath("kvtier-holding-worker"), agent_.socket_dir(), "100", "4", "200", "4", manner},
        log_);
    ASSERT_EQ(holder.status(), absl::OkStatus());
    holder_ = *std::move(holder);
    ASSERT_TRUE(Await(absl::Seconds(10), [&] {
      return FileTail(log_, 2000).find("holds 4 leases, 4 reservations") != std::string::npos;
    }));
  }
  // What the holder was given may not be used again, and all the rest is.
  void ExpectHeldSlotsAreKept() {
    EXPECT_EQ(Pool().taken_back_blocks(), 4);
    EXPECT_THAT(worker_->Get({.first = 100, .count = 4}, to_gpu_), Each(BlockSource::kGpu));
    EXPECT_EQ(agent_.Evict(Tier::kGpu).held_blocks(), 0);
    EXPECT_EQ(Pool().draining_slots(), 8);
    EXPECT_EQ(worker_->Put({.first = 300, .count = 16}, through_gpu_), 8);
    holder_->Kill();
    EXPECT_TRUE(Settled(0));
    EXPECT_EQ(UsedSlots(), 8);
    EXPECT_EQ(worker_->Put({.first = 400, .count = 8}, through_gpu_), 8);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
  const std::string log_ = absl::StrCat(cluster_.run_dir(), "/worker.log");
  const ReserveOptions through_gpu_ = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
  std::unique_ptr<TestWorker> worker_ =
      std::make_unique<TestWorker>(TestWorkerOptions{.socket_dir = agent_.socket_dir()});
  std::unique_ptr<ChildProcess> holder_;
};

TEST_F(GpuTakeBackTest, CommittedBlocksAreServedFromTheirSlotsAgain) {
  ASSERT_EQ(worker_->Put(kPrefix, through_gpu_), kPrefix.count);
  KillAndStart();
  ASSERT_TRUE(worker_->AwaitConnected());
  ASSERT_TRUE(Settled(0));
  EXPECT_EQ(Pool().taken_back_blocks(), kPrefix.count);
  EXPECT_EQ(Pool().dropped_blocks(), 0);
  EXPECT_THAT(worker_->Get(kPrefix, to_gpu_),
              AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
  EXPECT_EQ(Pool().onboard().copies(), 0);
  EXPECT_EQ(agent_.TierStatus(Tier::kDisk).hits(), 0);
  EXPECT_THAT(worker_->Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_EQ(agent_.Evict(Tier::kGpu).evicted_blocks(), kPrefix.count);
  EXPECT_EQ(UsedSlots(), 0);
  EXPECT_EQ(worker_->Put({.first = 300, .count = 16}, through_gpu_), 16);
}

TEST_F(GpuTakeBackTest, EachOfSeveralRestartsTakesThePoolBack) {
  ASSERT_EQ(worker_->Put(kPrefix, through_gpu_), kPrefix.count);
  for (size_t restart = 1; restart <= 3; ++restart) {
    KillAndStart();
    ASSERT_TRUE(worker_->AwaitConnected());
    ASSERT_TRUE(Settled(0)) << restart;
    // Those of before, and one more for each restart.
    EXPECT_EQ(Pool().taken_back_blocks(), kPrefix.count + restart - 1);
    EXPECT_THAT(worker_->Get(kPrefix, to_gpu_),
                AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
    EXPECT_EQ(worker_->Put({.first = 500 + restart, .count = 1}, through_gpu_), 1);
  }
}

TEST_F(GpuTakeBackTest, ABlockThatWasScribbledOnIsNotServed) {
  ASSERT_EQ(worker_->Put(kPrefix, through_gpu_), kPrefix.count);
  OnboardedBlocks held = worker_->Hold(kPrefix, to_gpu_);
  ASSERT_EQ(held.size(), kPrefix.count);
  agent_.Kill();
  const_cast<std::byte&>(held.bytes(2)[77]) ^= std::byte{1};
  held.Release();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_->AwaitConnected());
  ASSERT_TRUE(Settled(0));
  EXPECT_EQ(Pool().taken_back_blocks(), kPrefix.count - 1);
  EXPECT_EQ(Pool().dropped_blocks(), 1);
  EXPECT_FALSE(agent_.Holds(Tier::kGpu, worker_->KeyOf(kPrefix.first + 2)));
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).verify_failures(), 1);
  EXPECT_EQ(UsedSlots(), kPrefix.count - 1);
  worker_->Get(kPrefix, to_gpu_);  // Proves every byte of what it gets.
}

TEST_F(GpuTakeBackTest, AWorkerWithinAStepKeepsItsSlotsUntilItIsGone) {
  StartHolder("gpu");
  KillAndStart();
  ASSERT_TRUE(worker_->AwaitConnected());
  ASSERT_TRUE(Settled(1));
  ExpectHeldSlotsAreKept();
}

// The other worker brings the memory, and nobody knows what this one still does.
TEST_F(GpuTakeBackTest, AWorkerThatDoesNotOfferKeepsItsSlotsUntilItIsGone) {
  StartHolder("gpu");
  holder_->Signal(SIGSTOP);
  KillAndStart();
  ASSERT_TRUE(worker_->AwaitConnected());
  ASSERT_TRUE(Settled(1));
  ExpectHeldSlotsAreKept();
}

// It writes there by its CPU, in no step: only it knows when it is done.
TEST_F(GpuTakeBackTest, SlotsThatAWorkerStillWritesAreKeptUntilItLetsThemGo) {
  const Blocks written = {.first = 100, .count = 4};
  auto reserved =
      worker_->client().Reserve(worker_->space(), worker_->KeysOf(written), through_gpu_);
  ASSERT_TRUE(reserved.ok());
  ASSERT_EQ(reserved->reserved(), 4);
  KillAndStart();
  ASSERT_TRUE(worker_->AwaitConnected());
  ASSERT_TRUE(Settled(1));
  EXPECT_EQ(Pool().draining_slots(), 4);
  EXPECT_EQ(worker_->Put({.first = 300, .count = 16}, through_gpu_), 12);
  std::ranges::fill(reserved->slot(0), std::byte{0xee});
  EXPECT_EQ(reserved->Commit(), 0) << "its session is over";
  *reserved = ReservedBlocks();
  EXPECT_TRUE(Settled(0));
  EXPECT_EQ(Pool().draining_slots(), 0);
  EXPECT_EQ(worker_->Put({.first = 400, .count = 4}, through_gpu_), 4);
}

TEST_F(GpuTakeBackTest, WithoutAWorkerThatLivesThePoolBeginsAnew) {
  StartHolder("gpu");
  worker_ = nullptr;
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return Pool().workers() == 1; }));
  agent_.Kill();
  holder_->Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  EXPECT_EQ(UsedSlots(), 0);
  EXPECT_EQ(Pool().taken_back_blocks(), 0);
  EXPECT_THAT(agent_.LogText(), HasSubstr("no process that mapped it lives"));
}

TEST_F(GpuTakeBackTest, APoolThatNobodyOffersInTimeBeginsAnew) {
  StartHolder("gpu");
  worker_ = nullptr;
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return Pool().workers() == 1; }));
  holder_->Signal(SIGSTOP);
  KillAndStart();
  EXPECT_EQ(UsedSlots(), 0);
  EXPECT_THAT(agent_.LogText(), HasSubstr("no worker offered it within 2s"));
  // What it offers then is of another pool: it forgets it, and works on.
  holder_->Signal(SIGCONT);
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return Pool().workers() == 1; }));
  EXPECT_EQ(UsedSlots(), 0);
}

TEST_F(GpuTakeBackTest, AnAgentThatIsStoppedLeavesNoPool) {
  ASSERT_EQ(worker_->Put(kPrefix, through_gpu_), kPrefix.count);
  ASSERT_EQ(agent_.Stop(Patience(absl::Seconds(10))), 0);
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_->AwaitConnected());
  EXPECT_EQ(UsedSlots(), 0);
  EXPECT_THAT(agent_.LogText(), Not(HasSubstr("begins anew")));
}

}  // namespace
}  // namespace kvtier::testing
