#include "core/eviction_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/core/numbered_order.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr EvictionPolicy kAllOrders[] = {EvictionPolicy::kLearnt, EvictionPolicy::kLru,
                                         EvictionPolicy::kFifo, EvictionPolicy::kPriority};

// EvictionOrderTest states what holds in every order.
class EvictionOrderTest : public ::testing::TestWithParam<EvictionPolicy> {
 protected:
  NumberedOrder order_{GetParam()};
};

TEST_P(EvictionOrderTest, HasNoVictimWhenEmpty) {
  EXPECT_EQ(order_.Victim(), std::nullopt);
  EXPECT_EQ(order_.VictimOf(0), std::nullopt);
  EXPECT_EQ(order_.VictimOf(7), std::nullopt);
  EXPECT_EQ(order_->members(7), 0u);
  EXPECT_EQ(order_->policy(), GetParam());
  const bool learns = GetParam() == EvictionPolicy::kLearnt;
  EXPECT_EQ(order_->followed(), learns ? EvictionPolicy::kLru : GetParam()) << "nothing is learnt";
  order_->Audit();
}

TEST_P(EvictionOrderTest, OfBlocksAlikeTheOneThatCameFirstLeavesFirst) {
  for (uint64_t i = 1; i <= 3; ++i) order_.Insert(i);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{1, 2, 3}));
}

TEST_P(EvictionOrderTest, AChainLeavesFromItsTail) {
  order_.InsertChain(1, 5);
  order_.Touch(5);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{5, 4, 3, 2, 1}));
}

TEST_P(EvictionOrderTest, AParentThatComesLaterIsStillNoVictimBeforeItsChild) {
  order_.Insert(2, 1);
  order_.Insert(1);
  order_.Touch(2);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{2, 1}));
}

TEST_P(EvictionOrderTest, AnAbsentParentMakesNoDifference) {
  order_.Insert(2, 1);
  EXPECT_FALSE(order_.Contains(1));
  EXPECT_EQ(order_->size(), 1u);
  EXPECT_EQ(order_.Victim(), 2u);
  order_.Erase(2);
  order_.Insert(1);
  EXPECT_EQ(order_.Victim(), 1u);
  order_->Audit();
}

TEST_P(EvictionOrderTest, AHeldBlockIsNoVictimAndKeepsItsWholePrefix) {
  order_.InsertChain(1, 4);
  order_.Hold(4);
  EXPECT_EQ(order_->held(), 1u);
  EXPECT_EQ(order_.Victim(), std::nullopt);
  EXPECT_FALSE(order_->IsCandidate(order_.At(4)));
  order_->Audit();
  order_.Touch(4);
  EXPECT_EQ(order_.Victim(), std::nullopt) << "a use does not end the hold";
  order_.Unhold(4);
  EXPECT_EQ(order_->held(), 0u);
  EXPECT_EQ(order_.Victim(), 4u);
  EXPECT_TRUE(order_->IsCandidate(order_.At(4)));
  EXPECT_FALSE(order_->IsCandidate(order_.At(3)));
}

TEST_P(EvictionOrderTest, AnyMemberMayBeErasedAndItsChildrenStay) {
  order_.InsertChain(1, 3);
  order_.Erase(2);
  order_->Audit();
  EXPECT_TRUE(order_.Contains(3));
  EXPECT_TRUE(order_->IsCandidate(order_.At(1)));
  order_.Insert(2, 1);
  order_->Audit();
  EXPECT_FALSE(order_->IsCandidate(order_.At(2))) << "3 is still its child";
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{3, 2, 1}));
}

TEST_P(EvictionOrderTest, ListsTheChildrenOfABlockWhetherOrNotItIsThere) {
  const auto children = [this] {
    Numbers found;
    order_->ForEachChildOf(NumberedKey(1), [&](const BlockKey& child) {
      found.push_back(*NumberedOrder::NumberOf(child));
      return true;
    });
    std::ranges::sort(found);
    return found;
  };
  EXPECT_EQ(children(), Numbers());
  order_.Insert(2, 1);
  EXPECT_EQ(children(), Numbers{2}) << "the parent may come later";
  order_.Insert(1);
  EXPECT_EQ(children(), Numbers{2});
  order_.Insert(3, 1);
  order_.Insert(4, 1);
  order_->Audit();
  EXPECT_EQ(children(), (Numbers{2, 3, 4}));
  order_.Erase(1);
  order_->Audit();
  EXPECT_EQ(children(), (Numbers{2, 3, 4})) << "the parent may leave first";
  order_.Insert(1);
  order_.Erase(3);
  order_.Insert(5, 1);
  order_->Audit();
  EXPECT_EQ(children(), (Numbers{2, 4, 5}));
  for (const uint64_t number : {5, 4, 2}) order_.Erase(number);
  order_->Audit();
  EXPECT_EQ(children(), Numbers());
}

TEST_P(EvictionOrderTest, StopsListingChildrenWhenItIsTold) {
  for (uint64_t child = 2; child <= 4; ++child) order_.Insert(child, 1);
  order_.Insert(1);
  order_.Insert(5, 1);
  for (size_t wanted = 1; wanted <= 4; ++wanted) {
    size_t visited = 0;
    order_->ForEachChildOf(NumberedKey(1), [&](const BlockKey&) { return ++visited < wanted; });
    EXPECT_EQ(visited, wanted);
  }
}

// An engine that names a block its own ancestor must not make it immortal.
TEST_P(EvictionOrderTest, ACycleOfParentsStaysEvictable) {
  order_.Insert(1, 1);
  order_.Insert(2, 4);
  order_.Insert(3, 2);
  order_.Insert(4, 3);
  order_->Audit();
  EXPECT_EQ(order_.EraseDownTo(0).size(), 4u);
}

TEST_P(EvictionOrderTest, AMemberKeepsItsPlace) {
  const EvictionOrder::Place place = order_.Insert(1);
  order_.Hold(1);
  for (uint64_t i = 2; i <= 500; ++i) order_.Insert(i);
  order_.EraseDownTo(400);
  order_.Insert(1000);
  EXPECT_EQ(order_.At(1), place);
  EXPECT_EQ(order_->KeyOf(place), NumberedKey(1));
  EXPECT_EQ(order_->Find(NumberedKey(2000)), std::nullopt);
}

TEST_P(EvictionOrderTest, EachUseIsTheLastMoment) {
  order_.Insert(1);
  EXPECT_EQ(order_->LastUseOf(order_.At(1)), order_->last_moment());
  order_.Insert(2);
  EXPECT_LT(order_->LastUseOf(order_.At(1)), order_->last_moment());
  const Moment before = order_->last_moment();
  order_.Wait(absl::Seconds(3));
  EXPECT_GE(order_->last_moment(), before + 2'999'990);
  order_.Wait(-absl::Seconds(10));
  EXPECT_GE(order_->last_moment(), before + 2'999'990) << "it never goes back";
}

TEST_P(EvictionOrderTest, GroupsShareOneOrderAndEachHasAVictimOfItsOwn) {
  auto newcomer = NumberedOrder::Comes(1);
  newcomer.group = 2;
  order_.Insert(newcomer);
  order_.Insert(2);
  EXPECT_EQ(order_.Victim(), 1u);
  EXPECT_EQ(order_.VictimOf(0), 2u);
  EXPECT_EQ(order_.VictimOf(1), std::nullopt);
  EXPECT_EQ(order_.VictimOf(2), 1u);
  EXPECT_EQ(order_->members(2), 1u);
  EXPECT_EQ(order_->members(1), 0u);
  order_.Erase(1);
  EXPECT_EQ(order_->members(2), 0u);
  EXPECT_EQ(order_.VictimOf(2), std::nullopt);
  order_->Audit();
}

TEST_P(EvictionOrderTest, VictimWhereLooksAtSoManyInTheOrderOfLeaving) {
  for (uint64_t i = 1; i <= 9; ++i) order_.Insert(i);
  order_.Hold(2);
  const auto is = [](uint64_t number) {
    return [number](const BlockKey& key) { return key == NumberedKey(number); };
  };
  EXPECT_EQ(order_->VictimWhere(3, is(4)), NumberedKey(4));
  EXPECT_EQ(order_->VictimWhere(2, is(4)), std::nullopt);
  EXPECT_EQ(order_->VictimWhere(100, is(2)), std::nullopt) << "it is held";
}

TEST_P(EvictionOrderTest, VictimsWhereLeavesOutWhatIsNotAcceptedAndAllAboveIt) {
  order_.InsertChain(1, 3);
  order_.InsertChain(11, 13);
  const auto not_two = [](const BlockKey& key) { return key != NumberedKey(2); };
  const std::vector<BlockKey> expected = {NumberedKey(3), NumberedKey(13), NumberedKey(12),
                                          NumberedKey(11)};
  std::vector<BlockKey> victims = order_->VictimsWhere(10, 100, not_two);
  std::ranges::sort(victims);
  EXPECT_EQ(victims.size(), expected.size());
  for (const BlockKey& key : expected) EXPECT_TRUE(std::ranges::count(victims, key));
  EXPECT_EQ(order_->VictimsWhere(2, 100, not_two).size(), 2u);
  EXPECT_LE(order_->VictimsWhere(10, 3, not_two).size(), 3u);
}

// An order is told the parents of blocks for this property. The forests have random shapes.
TEST_P(EvictionOrderTest, NoParentLeavesBeforeItsChild) {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<std::optional<uint64_t>> parent_of;
  for (uint64_t i = 0; i < 500; ++i) {
    const bool is_root = i == 0 || random() % 10 == 0;
    parent_of.push_back(is_root ? std::nullopt : std::optional(random() % i));
    order_.Insert(i, parent_of.back());
    order_.Touch(random() % (i + 1));
    order_.Wait(absl::Milliseconds(random() % 2000));
  }
  for (const uint64_t gone : order_.EraseDownTo(0)) {
    parent_of[gone] = std::nullopt;
    for (const std::optional<uint64_t>& parent : parent_of) ASSERT_NE(parent, gone);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, EvictionOrderTest, ::testing::ValuesIn(kAllOrders),
                         [](const auto& info) {
                           return std::string(EvictionPolicyName(info.param));
                         });

TEST(LruOrderTest, AUseMakesABlockTheLastToLeave) {
  NumberedOrder order(EvictionPolicy::kLru);
  for (uint64_t i = 1; i <= 3; ++i) order.Insert(i);
  order.Touch(1);
  EXPECT_EQ(order.EraseDownTo(0), (Numbers{2, 3, 1}));
}

TEST(LruOrderTest, HintsAndTimeMakeNoDifference) {
  NumberedOrder order(EvictionPolicy::kLru);
  auto ends = NumberedOrder::Comes(2);
  ends.hint = {.will_not_return = true, .priority = 0};
  order.Insert(1);
  order.Wait(absl::Hours(5));
  order.Insert(ends);
  EXPECT_EQ(order.Victim(), 1u);
}

TEST(FifoOrderTest, AUseMakesNoDifference) {
  NumberedOrder order(EvictionPolicy::kFifo);
  order.InsertChain(1, 2);
  order.Insert(3);
  order.Touch(2);
  order.Touch(1);
  EXPECT_EQ(order.EraseDownTo(0), (Numbers{2, 1, 3}));
}

TEST(PriorityOrderTest, TheLowestPriorityLeavesFirstAndOfTwoAlikeTheOneUsedLongerAgo) {
  NumberedOrder order(EvictionPolicy::kPriority);
  for (const int priority : {51, 50, 100, 0, 50}) {
    auto newcomer = NumberedOrder::Comes(order->size() + 1);
    newcomer.hint.priority = static_cast<uint8_t>(priority);
    order.Insert(newcomer);
  }
  order->Touch(order.At(2), {.priority = 50});
  EXPECT_EQ(order.EraseDownTo(0), (Numbers{4, 5, 2, 1, 3}));
}

TEST(PriorityOrderTest, AdviceChangesThePriorityAndIsNoUse) {
  NumberedOrder order(EvictionPolicy::kPriority);
  for (uint64_t i = 1; i <= 4; ++i) order.Insert(i);
  order->Advise(order.At(1), {.priority = 60});
  order->Advise(order.At(2), {.priority = 50});
  order->Advise(order.At(4), {.will_not_return = true, .priority = 90});
  EXPECT_EQ(order.EraseDownTo(0), (Numbers{4, 2, 3, 1}));
}

TEST(PlainOrdersTest, RefuseNobodyAndCountNothing) {
  for (const EvictionPolicy policy :
       {EvictionPolicy::kLru, EvictionPolicy::kFifo, EvictionPolicy::kPriority}) {
    NumberedOrder order(policy);
    order.Insert({.key = NumberedKey(1), .hint = {.priority = 100}});
    auto newcomer = NumberedOrder::Comes(2);
    newcomer.hint = {.will_not_return = true, .priority = 0};
    EXPECT_TRUE(order->Admits(newcomer));
    order->Refuse(newcomer);  // The caller may refuse it all the same.
    EXPECT_EQ(order->Summary().score.asked, 0);
    order->Audit();
  }
}

TEST(EvictionOrderDeathTest, BreachesOfTheContractAbort) {
  NumberedOrder order(EvictionPolicy::kLearnt);
  order.Insert(1);
  const EvictionOrder::Place gone = order.Insert(2);
  order.Erase(2);
  EXPECT_DEATH(
      {
        order.Insert(1);
        order->Audit();
      },
      "CHECK failed");
  EXPECT_DEATH(order->Erase(gone), "CHECK failed");
  EXPECT_DEATH(order.Unhold(1), "CHECK failed");
  order.Hold(1);
  EXPECT_DEATH(order.Hold(1), "CHECK failed");
  EXPECT_DEATH(order.Erase(1), "CHECK failed");
}

}  // namespace
}  // namespace kvtier
