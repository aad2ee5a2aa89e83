#include "agent/gpu/earlier_workers.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "agent/gpu/take_back.h"
#include "core/task_scope.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier {
namespace {

constexpr uint64_t kSlot = 4096;
constexpr size_t kSlots = 8;

// A pool of which the agent before this one had handed out slot 1 and published in slot
// 2, and two workers of it, beside one that was given nothing yet.
class EarlierWorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const PoolLedger::Place place{
        .path = absl::StrCat(::testing::TempDir(), "kvtier-earlier-", getpid(), ".ledger"),
        .terms = {.shape = GpuPool::ShapeOf(kSlots * kSlot, kSlot),
                  .slot_bytes = kSlot,
                  .pool_bytes = kSlots * kSlot}};
    ledger_ = *PoolLedger::Create(place);
    ledger_->Resize(1, kSlots);
    ledger_->HandOut(1);
    ledger_->HandOut(2);
    ledger_->Publish(2, {.key = {7, 7}, .length = kSlot});
    for (size_t i = 0; i < 2; ++i) {
      pages_.push_back(*SignalPage::Create());
      offers_.push_back({.id = *PageIdOf(pages_[i]->descriptor()), .page = pages_[i]});
      places_.push_back(*ledger_->AddWorker({.pid = 1}, offers_[i].id));
      ledger_->GiveSlots(places_[i]);
    }
    ASSERT_TRUE(ledger_->AddWorker({.pid = 1}, {}).ok());
    pool_ = GpuPool::Adopt(&runner_, *device_.CreateRegion(place.terms.shape, 1), kSlot, kSlots);
    survivors_ = ReadSurvivors(pool_.get(), *ledger_);
    pool_->Keep(ledger_.get());
    words_ = std::make_unique<StepWords>(&device_, &pool_->table(), &executor_, &scope_);
    earlier_ = std::make_unique<EarlierWorkers>(pool_.get(), words_.get(), ledger_.get(),
                                                ledger_->Workers());
    ASSERT_EQ(earlier_->Keep(std::vector<SlotRef>{survivors_.handed_out.at(0).ref(),
                                                  survivors_.blocks.at(0).slot.ref()}),
              absl::OkStatus());
    survivors_.handed_out.clear();
  }
  void TearDown() override { ledger_->Discard(); }
  void Say(size_t worker, StepWord word, uint64_t value) {
    pages_[worker]->word(static_cast<size_t>(word))->store(value);
    earlier_->Sweep();
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  EmulatedDevice device_{&executor_, {}};
  LaneRunner runner_{&device_, &executor_, &executor_};
  TaskScope scope_{&executor_};
  std::unique_ptr<PoolLedger> ledger_;
  std::vector<std::shared_ptr<const SignalPage>> pages_;
  std::vector<OfferedPage> offers_;
  std::vector<size_t> places_;
  std::unique_ptr<GpuPool> pool_;
  PoolSurvivors survivors_;
  std::unique_ptr<StepWords> words_;
  std::unique_ptr<EarlierWorkers> earlier_;
};

TEST_F(EarlierWorkersTest, WhatWasFreeServesAtOnceAndTheRestWaitsForAllOfThem) {
  EXPECT_EQ(pool_->table().free_slots(), kSlots - 2);
  EXPECT_EQ(pool_->table().draining_slots(), 1u);
  earlier_->Gone(places_[0]);
  EXPECT_EQ(earlier_->size(), 1u);
  EXPECT_EQ(pool_->table().free_slots(), kSlots - 2);
  earlier_->Gone(places_[1]);
  EXPECT_EQ(pool_->table().free_slots(), kSlots - 1);
  EXPECT_EQ(ledger_->slot(1).state, PoolLedger::SlotState::kFree);
  EXPECT_EQ(ledger_->slot(2).state, PoolLedger::SlotState::kPublished);
  EXPECT_TRUE(ledger_->Workers().empty());
  survivors_.blocks.clear();
  EXPECT_EQ(pool_->table().free_slots(), kSlots);
}

TEST_F(EarlierWorkersTest, APublishedSlotIsNotUsedAgainBeforeTheyAreDone) {
  survivors_.blocks.clear();
  EXPECT_EQ(pool_->table().draining_slots(), 2u);
  EXPECT_EQ(pool_->table().free_slots(), kSlots - 2);
  earlier_->Gone(places_[0]);
  earlier_->Gone(places_[1]);
  EXPECT_EQ(pool_->table().free_slots(), kSlots);
}

TEST_F(EarlierWorkersTest, APageSaysWhenItsWorkerIsDone) {
  earlier_->Gone(places_[1]);
  Say(0, StepWord::kBegun, 5);
  Say(0, StepWord::kRetired, 4);
  earlier_->Offered(offers_[0]);
  EXPECT_EQ(earlier_->size(), 1u);
  Say(0, StepWord::kOver, 1);
  EXPECT_EQ(earlier_->size(), 1u) << "step 5 still runs";
  Say(0, StepWord::kRetired, 5);
  EXPECT_EQ(earlier_->size(), 0u);
  EXPECT_EQ(pool_->table().free_slots(), kSlots - 1);
}

TEST_F(EarlierWorkersTest, AllStepsHaveEndedIsNotEnoughWhileSlotsAreInUse) {
  earlier_->Gone(places_[1]);
  earlier_->Offered(offers_[0]);
  EXPECT_EQ(earlier_->size(), 1u);
  Say(0, StepWord::kOver, 1);
  EXPECT_EQ(earlier_->size(), 0u);
}

TEST_F(EarlierWorkersTest, WhoWasGivenNothingIsNotWaitedFor) {
  EXPECT_EQ(earlier_->size(), 2u);
  EXPECT_EQ(ledger_->Workers().size(), 2u);
}

TEST_F(EarlierWorkersTest, APageOfNobodyChangesNothing) {
  const std::shared_ptr<const SignalPage> page = *SignalPage::Create();
  page->word(static_cast<size_t>(StepWord::kOver))->store(1);
  earlier_->Offered({.id = *PageIdOf(page->descriptor()), .page = page});
  EXPECT_EQ(earlier_->size(), 2u);
}

TEST_F(EarlierWorkersTest, ThosePlacesThatAreNobodysAreIgnored) {
  earlier_->Gone(places_[1] + 1);
  EXPECT_EQ(earlier_->size(), 2u);
}

}  // namespace
}  // namespace kvtier
