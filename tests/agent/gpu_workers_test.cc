// What the ledger of a pool says of those who work on it: an agent that takes the pool back
// waits for whoever it names, and for nobody else.
#include "agent/gpu/gpu_workers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/task_scope.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier {
namespace {

constexpr uint64_t kSlot = 4096;
constexpr size_t kSlots = 8;
constexpr SessionId kSession{1};

class GpuWorkersLedgerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const PoolLedger::Place place{
        .path = absl::StrCat(::testing::TempDir(), "kvtier-workers-", getpid(), ".ledger"),
        .terms = {.shape = GpuPool::ShapeOf(kSlots * kSlot, kSlot),
                  .slot_bytes = kSlot,
                  .pool_bytes = kSlots * kSlot}};
    ledger_ = *PoolLedger::Create(place);
    ledger_->Resize(1, kSlots);
    pool_ = *GpuPool::Create(&device_, &runner_, kSlots * kSlot, kSlot);
    pool_->Keep(ledger_.get());
    workers_ = std::make_unique<GpuWorkers>(&device_, pool_.get(), &executor_, &scope_);
    workers_->Keep(ledger_.get());
  }
  void TearDown() override { ledger_->Discard(); }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  EmulatedDevice device_{&executor_, {}};
  LaneRunner runner_{&device_, &executor_, &executor_};
  TaskScope scope_{&executor_};
  std::unique_ptr<PoolLedger> ledger_;
  std::unique_ptr<GpuPool> pool_;
  std::unique_ptr<GpuWorkers> workers_;
};

// It writes by its CPU, in no step. The agent forgot it at its hangup, was killed, and the
// next one gave the slots that it still wrote to others.
TEST_F(GpuWorkersLedgerTest, AWorkerThatHungUpIsInTheLedgerUntilItsWritesAreOver) {
  ASSERT_TRUE(workers_->Attach(kSession).ok());
  const GpuSlot slot = *pool_->Reserve();
  const GpuHold hold = workers_->Hold(kSession, slot.ref());
  workers_->Close(kSession);
  workers_->Sweep();
  EXPECT_EQ(ledger_->Workers().size(), 1u);
  workers_->WritesOver(kSession);
  EXPECT_TRUE(ledger_->Workers().empty());
  EXPECT_EQ(workers_->size(), 0u);
}

TEST_F(GpuWorkersLedgerTest, AWorkerThatWasGivenNoSlotLeavesWithItsSteps) {
  ASSERT_TRUE(workers_->Attach(kSession).ok());
  workers_->Close(kSession);
  workers_->Sweep();
  EXPECT_TRUE(ledger_->Workers().empty());
}

TEST_F(GpuWorkersLedgerTest, ASessionWithoutAPageIsInTheLedgerUntilItsWritesAreOver) {
  const GpuSlot slot = *pool_->Reserve();
  const GpuHold hold = workers_->Hold(kSession, slot.ref());
  EXPECT_EQ(ledger_->silent_sessions(), 1u);
  workers_->Close(kSession);
  EXPECT_EQ(ledger_->silent_sessions(), 1u);
  workers_->WritesOver(kSession);
  EXPECT_EQ(ledger_->silent_sessions(), 0u);
}

}  // namespace
}  // namespace kvtier
