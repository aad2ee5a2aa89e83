// Tests blocks that EvictionOrder has set aside.
#include <gtest/gtest.h>

#include <optional>

#include "core/eviction_order.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

class SetAsideTest : public ::testing::Test {
 protected:
  SetAsideTest() {
    for (uint64_t i = 1; i <= 4; ++i) order_.Insert(i);
  }
  bool SetsAsideAgain() { return order_->SetNextAside(0)->again; }

  NumberedOrder order_{EvictionPolicy::kLru};
};

TEST_F(SetAsideTest, BlocksAreSetAsideInTheOrderOfLeavingAndLeaveInThat) {
  EXPECT_EQ(order_.SetNextAside(), 1u);
  EXPECT_EQ(order_.SetNextAside(), 2u);
  EXPECT_EQ(order_->aside(0), 2u);
  EXPECT_TRUE(order_->WasSetAside(order_.At(1)));
  EXPECT_FALSE(order_->WasSetAside(order_.At(3)));
  order_->Audit();
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(order_->aside(0), 0u);
}

TEST_F(SetAsideTest, WhatIsAsideLeavesBeforeAllThatIsNot) {
  order_.Hold(1);
  EXPECT_EQ(order_.SetNextAside(), 2u);
  order_.Unhold(1);
  EXPECT_EQ(order_.EraseDownTo(2), (Numbers{2, 1}));
}

TEST_F(SetAsideTest, AUseBringsItBackAndItIsNotAsideAgainBefore) {
  order_.SetNextAside();
  order_.Touch(1);
  EXPECT_EQ(order_->aside(0), 0u);
  EXPECT_FALSE(order_->WasSetAside(order_.At(1)));
  order_->Audit();
  EXPECT_EQ(order_.Victim(), 2u);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(SetsAsideAgain());
  EXPECT_FALSE(SetsAsideAgain()) << "1 was used since";
  EXPECT_EQ(order_.SetNextAside(), std::nullopt);
}

TEST_F(SetAsideTest, AChildBringsItBackAndItIsSetAsideAgainAfterwards) {
  order_.SetNextAside();
  order_.Insert(11, 1);
  EXPECT_EQ(order_->aside(0), 0u);
  order_->Audit();
  EXPECT_EQ(order_.Victim(), 2u);
  order_.Erase(11);
  EXPECT_EQ(order_.Victim(), 1u);
  EXPECT_TRUE(order_->WasSetAside(order_.At(1)));
  EXPECT_TRUE(SetsAsideAgain()) << "it was not used since";
}

TEST_F(SetAsideTest, WhatIsHeldIsSkippedAndKeepsItsTurn) {
  order_.SetNextAside();
  order_.SetNextAside();
  order_.Hold(1);
  order_->Audit();
  EXPECT_EQ(order_->aside(0), 2u);
  EXPECT_EQ(order_.Victim(), 2u);
  order_.Unhold(1);
  EXPECT_EQ(order_.Victim(), 1u);
}

TEST_F(SetAsideTest, ABlockWhoseChildrenAreAllAsideIsSetAsideButLeavesAfterThem) {
  order_.EraseDownTo(0);
  order_.InsertChain(1, 2);
  order_.Insert(3, 1);
  EXPECT_EQ(order_.SetNextAside(), 2u);
  EXPECT_EQ(order_.SetNextAside(), 3u);
  EXPECT_EQ(order_.SetNextAside(), 1u);
  EXPECT_EQ(order_.SetNextAside(), std::nullopt);
  EXPECT_FALSE(order_->IsCandidate(order_.At(1)));
  order_.Hold(3);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{2}));
  order_.Unhold(3);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{3, 1}));
}

TEST_F(SetAsideTest, WhatIsBroughtBackBringsThoseAboveItBack) {
  order_.EraseDownTo(0);
  order_.InsertChain(1, 3);
  for (int i = 0; i < 3; ++i) order_.SetNextAside();
  order_.Insert(9);
  order_.Touch(3);
  order_->Audit();
  EXPECT_EQ(order_->aside(0), 0u);
  EXPECT_EQ(order_.Victim(), 9u);
  EXPECT_TRUE(order_->WasSetAside(order_.At(1)));
  EXPECT_FALSE(order_->WasSetAside(order_.At(3)));
}

TEST_F(SetAsideTest, EachGroupHasItsOwn) {
  auto newcomer = NumberedOrder::Comes(9);
  newcomer.group = 1;
  order_.Insert(newcomer);
  order_.SetNextAside();
  EXPECT_EQ(order_->SetNextAside(1)->key, NumberedKey(9));
  EXPECT_EQ(order_->SetNextAside(2), std::nullopt);
  EXPECT_EQ(order_->aside(0), 1u);
  EXPECT_EQ(order_->aside(1), 1u);
  EXPECT_EQ(order_.VictimOf(1), 9u);
  EXPECT_EQ(order_.Victim(), 1u);
  order_.Erase(1);
  EXPECT_EQ(order_.Victim(), 9u) << "aside, if of another group";
  order_->Audit();
}

TEST_F(SetAsideTest, ChoicesByConditionLeaveItOut) {
  order_.SetNextAside();
  const auto any = [](const BlockKey&) { return true; };
  EXPECT_EQ(order_->VictimWhere(9, any), NumberedKey(2));
  EXPECT_EQ(order_->VictimsWhere(9, 9, any).size(), 3u);
}

// A new hint gives a block that was set aside its place in the order again. The work that was done
// when it was set aside is not done again.
TEST_F(SetAsideTest, AdviceBringsItBackAndItIsSetAsideAgain) {
  NumberedOrder order(EvictionPolicy::kPriority);
  for (uint64_t i = 1; i <= 2; ++i) order.Insert(i);
  EXPECT_EQ(order.SetNextAside(), 1u);
  order->Advise(order.At(1), {.priority = 90});
  order->Audit();
  EXPECT_EQ(order->aside(0), 0u);
  EXPECT_EQ(order.Victim(), 2u);
  order.Erase(2);
  EXPECT_TRUE(order->SetNextAside(0)->again);
}

// Regression: a block was erased while it had children, and came back while a child was there. Then
// it was taken for a block that had been set aside since its last use.
TEST_F(SetAsideTest, ABlockThatComesBackWasNotSetAside) {
  order_.SetNextAside();
  order_.Insert(11, 1);
  order_.Erase(1);
  order_.Insert(1);
  EXPECT_FALSE(order_->WasSetAside(order_.At(1)));
}

}  // namespace
}  // namespace kvtier
