// Tests swapped sequences that wait in line for slots, and sequences that wait for steps before
// they leave.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/agent/swap_rig.h"

namespace kvtier::testing {
namespace {

class SwapLineTest : public SwapRig {
 protected:
  using Waiting = std::shared_ptr<std::optional<In>>;

  // Makes three sequences of two blocks, of two sessions, wait for slots; `held_` has all slots.
  void WaitForSlots(absl::Duration timeout) {
    const SwapId low = FillAndSwapOut(rig_.session, 100, 2, /*priority=*/1);
    const SwapId high = FillAndSwapOut(other_, 200, 2, /*priority=*/5);
    const SwapId young = FillAndSwapOut(other_, 300, 2, /*priority=*/1);
    held_ = Fill(rig_.session, 900, 12);
    // The sequence that is last in line asks first.
    young_ = rig_.Spawn(Return(other_, young, timeout));
    low_ = rig_.Spawn(Return(rig_.session, low, timeout));
    high_ = rig_.Spawn(Return(other_, high, timeout));
    rig_.Pass(absl::Milliseconds(50));
    ASSERT_FALSE(young_->has_value() || low_->has_value() || high_->has_value());
    ASSERT_EQ(gpu().line().size(), 3u);
  }
  void GiveBack(size_t count) {
    const std::vector<uint32_t> some(held_.end() - static_cast<ptrdiff_t>(count), held_.end());
    held_.resize(held_.size() - count);
    gpu().grants().Release(rig_.session, some);
    rig_.Pass(absl::Milliseconds(50));
  }

  const SessionId other_ = rig_.Open(0);
  std::vector<uint32_t> held_;
  Waiting low_, high_, young_;
};

TEST_F(SwapLineTest, TheHigherPriorityComesBackFirstAndThenWhoSwappedOutFirst) {
  WaitForSlots(absl::Seconds(30));
  GiveBack(1);
  EXPECT_EQ(gpu().line().gathered(), 1u) << "for the first in line, who needs one more";
  GiveBack(1);
  ASSERT_TRUE(high_->has_value());
  EXPECT_TRUE(Holds(***high_, 200));
  EXPECT_FALSE(low_->has_value() || young_->has_value());
  GiveBack(2);
  ASSERT_TRUE(low_->has_value());
  EXPECT_TRUE(Holds(***low_, 100));
  EXPECT_FALSE(young_->has_value());
  GiveBack(2);
  ASSERT_TRUE(young_->has_value());
  EXPECT_TRUE(Holds(***young_, 300));
}

TEST_F(SwapLineTest, WhoseTurnDoesNotComeInTimeStaysOut) {
  WaitForSlots(absl::Seconds(1));
  GiveBack(1);
  rig_.Pass(absl::Seconds(1));
  for (const Waiting& waiting : {low_, high_, young_}) {
    ASSERT_TRUE(waiting->has_value());
    EXPECT_EQ((*waiting)->status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(gpu().line().size(), 0u);
  EXPECT_EQ(gpu().line().gathered(), 0u) << "what was gathered is free again";
  EXPECT_EQ(used_slots(), 11u);
  EXPECT_EQ(swapped().UseOf(domain()).sequences, 3u);
  GiveBack(2);
  EXPECT_TRUE(Holds(*SwapIn(rig_.session, SwapId{1}), 100));
}

TEST_F(SwapLineTest, WhoDoesNotWaitIsRefusedAtOnce) {
  const SwapId id = FillAndSwapOut(rig_.session, 100, 2);
  Fill(rig_.session, 900, 11);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(used_slots(), 11u);
}

TEST_F(SwapLineTest, CachedBlocksMakeRoom) {
  ASSERT_EQ(rig_.Put(rig_.session, 1, 12), 12u);
  ASSERT_EQ(rig_.Run(rig_.Onboard(rig_.session, 1, 8, absl::Seconds(1), Tier::kGpu))->blocks.size(),
            8u);
  const SwapId id = FillAndSwapOut(rig_.session, 100, 4);
  Fill(rig_.session, 900, 3);
  EXPECT_EQ(SwapIn(rig_.session, id).status().code(), absl::StatusCode::kResourceExhausted)
      << "leased blocks stay";
  rig_.agent->sessions().leases().ReleaseAll(rig_.session);
  EXPECT_TRUE(Holds(*SwapIn(rig_.session, id), 100));
}

TEST_F(SwapLineTest, TheEndOfASessionTakesItOutOfTheLine) {
  WaitForSlots(absl::Seconds(30));
  rig_.agent->CloseSession(other_);
  rig_.agent->sessions().ProcessGone(other_);
  GiveBack(4);
  ASSERT_TRUE(low_->has_value());
  EXPECT_TRUE(Holds(***low_, 100));
  GiveBack(4);
  for (const Waiting& waiting : {high_, young_}) {
    ASSERT_TRUE(waiting->has_value());
    EXPECT_EQ((*waiting)->status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(used_slots(), 6u);
  EXPECT_EQ(used_host(), 0u);
}

TEST_F(SwapLineTest, WhatIsDroppedWhileItWaitsDoesNotComeBack) {
  WaitForSlots(absl::Seconds(30));
  swapped().Drop(other_, std::vector<SwapId>{SwapId{2}});
  GiveBack(2);
  ASSERT_TRUE(high_->has_value());
  EXPECT_EQ((*high_)->status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SwapLineTest, AStoppingAgentLetsNobodyWait) {
  WaitForSlots(absl::Seconds(30));
  rig_.agent->EndWaits();
  rig_.Pass(absl::Milliseconds(50));
  ASSERT_TRUE(high_->has_value());
  EXPECT_EQ((*high_)->status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(gpu().line().size(), 0u);
}

// SwapStepsTest has a worker whose steps write and read the slots.
class SwapStepsTest : public SwapRig {
 protected:
  uint64_t Begin() {
    page_->word(static_cast<size_t>(StepWord::kBegun))->store(++begun_);
    return begun_;
  }
  void End(uint64_t step) { page_->word(static_cast<size_t>(StepWord::kRetired))->store(step); }

  const SignalPage* const page_ = *rig_.agent->sessions().AttachToGpu(rig_.session);
  uint64_t begun_ = 0;
};

TEST_F(SwapStepsTest, BlocksGoOutWhenTheStepThatWritesThemHasRetired) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 2);
  SwapOutRequest request = Leaving(rig_.session, slots);
  request.step = Begin();
  const auto out = rig_.Spawn(rig_.agent->flows().swapper.SwapOut(request));
  rig_.Pass(absl::Seconds(1));
  ASSERT_FALSE(out->has_value());
  EXPECT_EQ(used_host(), 0u) << "no room is taken before it is needed";
  FillBlock(1, TestEngineKey(101), Slot(slots[1]));  // The step's last write.
  FillBlock(1, TestEngineKey(100), Slot(slots[0]));
  End(request.step);
  rig_.Pass(absl::Seconds(1));
  ASSERT_TRUE(out->has_value() && (*out)->ok());
  EXPECT_TRUE(Holds(*SwapIn(rig_.session, ***out), 100));
}

TEST_F(SwapStepsTest, SlotsGivenBackAreUsedAgainOnlyBehindTheStepsThatMayReadThem) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 8);
  SwapOutRequest request = Leaving(rig_.session, slots);
  request.step = Begin();
  End(request.step);
  const uint64_t later = Begin();  // This step was submitted while the slots were held.
  ASSERT_EQ(SwapOut(request).status(), absl::OkStatus());
  EXPECT_EQ(used_slots(), 8u);
  EXPECT_EQ(gpu().grants().Take(rig_.Open(0), 12)->size(), 4u);
  End(later);
  EXPECT_EQ(gpu().grants().Take(rig_.Open(0), 12)->size(), 8u);
}

TEST_F(SwapStepsTest, AStepThatDoesNotRetireLeavesAllAsItWas) {
  const std::vector<uint32_t> slots = Fill(rig_.session, 100, 2);
  SwapOutRequest request = Leaving(rig_.session, slots);
  request.step = Begin();
  EXPECT_EQ(SwapOut(request).status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(gpu().grants().size(), 2u);
  EXPECT_EQ(swapped().size(), 0u);
  EXPECT_EQ(used_host(), 0u);
  request.step += 1;
  EXPECT_EQ(SwapOut(request).status().code(), absl::StatusCode::kInvalidArgument)
      << "it has not begun";
  End(begun_);
}

}  // namespace
}  // namespace kvtier::testing
