// Tests EvictionOrder when it is told what it costs to bring blocks back.
#include <gtest/gtest.h>

#include <optional>

#include "core/eviction_order.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

class OrderCostsTest : public ::testing::Test {
 protected:
  OrderCostsTest() { order_.Teach(); }

  NumberedOrder order_{EvictionPolicy::kLearnt};
};

TEST_F(OrderCostsTest, OfBlocksAlikeTheOneThatTheTierBelowHasLeavesFirst) {
  for (uint64_t number = 1; number <= 4; ++number) order_.Insert(number);
  order_->NoteBelow(order_.At(3), true);
  order_->NoteBelow(order_.At(2), true);
  order_->NoteBelow(order_.At(2), false);
  order_->Audit();
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{3, 1, 2, 4}));
}

TEST_F(OrderCostsTest, WhatIsSetAsideStaysSoWhenTheTierBelowHasIt) {
  for (uint64_t number = 1; number <= 3; ++number) order_.Insert(number);
  ASSERT_EQ(order_.SetNextAside(), 1u);
  order_->NoteBelow(order_.At(1), true);
  order_->NoteBelow(order_.At(2), true);
  EXPECT_EQ(order_->aside(0), 1u);
  order_->Audit();
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{1, 2, 3}));
}

TEST_F(OrderCostsTest, WhatItCostsToBringABlockBackMakesNoDifferenceToAdmission) {
  order_.Insert(1);
  for (int use = 0; use < 5; ++use) {
    order_.Wait(absl::Seconds(1));
    order_.Touch(1);
  }
  for (const bool is_below : {true, false}) {
    order_->NoteBelow(order_.At(1), is_below);
    EXPECT_FALSE(order_->Admits(NumberedOrder::Comes(2)));
  }
}

TEST(DepthTest, ABlockCostsMoreTheDeeperItIsWhereTheOrderKnowsWhatAttentionCosts) {
  for (const uint64_t attention_length : {0, 20}) {
    NumberedOrder order(EvictionPolicy::kLearnt, attention_length);
    const auto put = [&](uint64_t number, std::optional<uint64_t> parent) {
      EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(number, parent);
      newcomer.length = 1;
      return static_cast<int>(order->StateOf(order.Insert(newcomer)).Cost());
    };
    int cost = put(1, std::nullopt);
    EXPECT_EQ(cost, 0);
    for (uint64_t number = 2; number <= 100; ++number) cost = put(number, number - 1);
    if (attention_length == 0) {
      EXPECT_EQ(cost, 0);
    } else {
      EXPECT_GE(cost, 3);
    }
    order->Audit();
  }
}

}  // namespace
}  // namespace kvtier
