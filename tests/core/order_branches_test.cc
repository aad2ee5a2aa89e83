// Tests EvictionOrder with conversations that go on from another block than their last.
#include <gtest/gtest.h>

#include <optional>

#include "core/eviction_order.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

// A conversation of blocks 1 to 4 goes on from its second block, as one does whose history was
// rewritten.
class OrderBranchesTest : public ::testing::Test {
 protected:
  static constexpr ReuseHint kConversation{.conversation = 7};

  void Put(uint64_t number, std::optional<uint64_t> parent, const ReuseHint& hint = kConversation) {
    EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(number, parent);
    newcomer.hint = hint;
    order_.Insert(newcomer);
  }
  void PutConversation() {
    Put(1, std::nullopt);
    for (uint64_t number = 2; number <= 4; ++number) Put(number, number - 1);
  }
  bool IsLeftBehind(uint64_t number) { return order_.StateOf(number).left_behind != 0; }

  NumberedOrder order_{EvictionPolicy::kLearnt};
};

TEST_F(OrderBranchesTest, AConversationLeavesTheBranchBehindThatItDoesNotGoOnFrom) {
  PutConversation();
  Put(10, 4);
  for (const uint64_t number : {1, 2, 3, 4, 10}) EXPECT_FALSE(IsLeftBehind(number)) << number;
  Put(21, 2);
  Put(22, 21);
  for (const uint64_t number : {3, 4, 10}) EXPECT_TRUE(IsLeftBehind(number)) << number;
  for (const uint64_t number : {1, 2, 21, 22}) EXPECT_FALSE(IsLeftBehind(number)) << number;
  order_->Audit();
  order_.Insert(30);
  EXPECT_EQ(order_.EraseDownTo(5), (Numbers{10, 4, 3})) << "before all others";
}

TEST_F(OrderBranchesTest, WhatAnotherConversationGoesOnFromIsNotLeftBehind) {
  PutConversation();
  Put(31, 3, {.conversation = 8});
  Put(21, 2);
  EXPECT_TRUE(IsLeftBehind(4));
  EXPECT_FALSE(IsLeftBehind(3));
  EXPECT_FALSE(IsLeftBehind(31));
}

TEST_F(OrderBranchesTest, ABranchThatIsUsedAgainIsNotLeftBehind) {
  PutConversation();
  Put(21, 2);
  ASSERT_TRUE(IsLeftBehind(4));
  order_.Touch(4);
  EXPECT_FALSE(IsLeftBehind(4));
  EXPECT_TRUE(IsLeftBehind(3));
}

TEST_F(OrderBranchesTest, ABlockThatWasMissingAndComesBackLeavesNothingBehind) {
  Put(1, std::nullopt);
  for (uint64_t number = 3; number <= 4; ++number) Put(number, number - 1);
  Put(2, 1);
  for (const uint64_t number : {1, 2, 3, 4}) EXPECT_FALSE(IsLeftBehind(number)) << number;
}

TEST_F(OrderBranchesTest, WithoutAnIdNothingIsLeftBehind) {
  Put(1, std::nullopt, {});
  Put(2, 1, {});
  Put(3, 1, {});
  EXPECT_FALSE(IsLeftBehind(2));
}

TEST_F(OrderBranchesTest, AThousandBlocksAreLeftBehindAtATime) {
  Put(1, std::nullopt);
  for (uint64_t number = 2; number <= 2000; ++number) Put(number, number - 1);
  Put(5000, 1);
  EXPECT_TRUE(IsLeftBehind(2000));
  EXPECT_TRUE(IsLeftBehind(977));
  EXPECT_FALSE(IsLeftBehind(976));
}

}  // namespace
}  // namespace kvtier
