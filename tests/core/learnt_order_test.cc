// Tests EvictionOrder when it orders blocks by what it has learnt.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <optional>
#include <random>
#include <vector>

#include "core/eviction_order.h"
#include "tests/core/numbered_order.h"

namespace kvtier {
namespace {

class LearntOrderTest : public ::testing::Test {
 protected:
  // Teaches the order enough to refuse newcomers. The lessons are close to what is assumed without
  // any: a block that others of its request follow is used about once a minute.
  LearntOrderTest() {
    constexpr uint64_t kOther = 1000;
    EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(kOther);
    newcomer.followers = 2;
    order_.Insert(newcomer);
    for (int i = 0; i < 2100; ++i) {
      order_.Wait(absl::Seconds(20 + i % 80));
      order_.Touch(kOther);
    }
    order_.Erase(kOther);
  }
  void InsertHinted(uint64_t number, const ReuseHint& hint) {
    EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(number);
    newcomer.hint = hint;
    order_.Insert(newcomer);
  }
  void InsertArriving(uint64_t number, Arrival arrival) {
    EvictionOrder::Newcomer newcomer = NumberedOrder::Comes(number);
    newcomer.arrival = arrival;
    order_.Insert(newcomer);
  }
  // Inserts blocks first to last, which are used five times, one a second.
  void InsertUsed(uint64_t first, uint64_t last) {
    for (uint64_t i = first; i <= last; ++i) order_.Insert(i);
    for (int use = 0; use < 5; ++use) {
      order_.Wait(absl::Seconds(1));
      for (uint64_t i = first; i <= last; ++i) order_.Touch(i);
    }
  }

  NumberedOrder order_{EvictionPolicy::kLearnt};
};

TEST_F(LearntOrderTest, ABlockThatWasUsedOutstaysOneThatCameAfterItsLastUse) {
  InsertUsed(1, 1);
  order_.Wait(absl::Seconds(5));
  order_.Insert(2);
  order_.Wait(absl::Seconds(5));
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{2, 1}));
}

TEST_F(LearntOrderTest, ABlockThatWasUsedLeavesWhenItsTimeHasPassed) {
  InsertUsed(1, 1);
  order_.Wait(absl::Hours(10));
  order_.Insert(2);
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{1, 2}));
}

TEST_F(LearntOrderTest, ANewcomerWorthLessThanAllIsRefused) {
  InsertUsed(1, 4);
  EXPECT_FALSE(order_->Admits(NumberedOrder::Comes(9)));
  auto newcomer = NumberedOrder::Comes(9);
  newcomer.hint.priority = kMaxPriority;
  EXPECT_TRUE(order_->Admits(newcomer)) << "its engine makes it worth more";
  newcomer.hint = {.turn = 4};
  newcomer.group = 3;
  EXPECT_TRUE(order_->Admits(newcomer)) << "nobody of its group would leave for it";
  order_.Wait(absl::Hours(10));
  EXPECT_TRUE(order_->Admits(NumberedOrder::Comes(9))) << "they are old";
}

TEST_F(LearntOrderTest, AnEqualOfTheVictimIsAdmitted) {
  order_.Insert(1);
  EXPECT_TRUE(order_->Admits(NumberedOrder::Comes(2)));
  auto newcomer = NumberedOrder::Comes(2);
  newcomer.hint.will_not_return = true;
  EXPECT_FALSE(order_->Admits(newcomer));
}

// Regression: a newcomer was compared with the first block not set aside, which does not leave for
// it.
TEST_F(LearntOrderTest, ANewcomerIsComparedWithWhatIsAsideWhereThatLeavesForIt) {
  order_.Insert(1);
  order_.Wait(absl::Hours(10));
  order_.SetNextAside();
  InsertUsed(2, 3);
  EXPECT_EQ(order_.Victim(), 1u);
  EXPECT_TRUE(order_->Admits(NumberedOrder::Comes(9)));
  order_.Erase(1);
  EXPECT_FALSE(order_->Admits(NumberedOrder::Comes(9)));
}

TEST_F(LearntOrderTest, WhatWasRefusedAndIsAskedForAgainIsRemembered) {
  InsertUsed(1, 4);
  int refused = 0;
  while (!order_->Admits(NumberedOrder::Comes(9))) {
    ASSERT_LT(++refused, 10);
    order_->Refuse(NumberedOrder::Comes(9));
    order_.Wait(absl::Seconds(20));
    for (uint64_t i = 1; i <= 4; ++i) order_.Touch(i);
  }
  EXPECT_GT(refused, 1);
  order_.Insert(9);
  EXPECT_EQ(order_.StateOf(9).uses, static_cast<uint32_t>(refused));
  EXPECT_EQ(order_.StateOf(9).gap, 2u);
  order_->Audit();
}

TEST_F(LearntOrderTest, WhatComesBackIsRemembered) {
  InsertHinted(1, {.turn = 2});
  order_.Touch(1);
  order_.Erase(1);
  order_.Wait(absl::Seconds(100));
  order_.Insert(1);
  EXPECT_EQ(order_.StateOf(1).uses, 2u);
  EXPECT_EQ(order_.StateOf(1).turn, 2u);
  EXPECT_EQ(order_.StateOf(1).gap, 4u);
  order_.Erase(1);
  order_.Insert(1);
  EXPECT_EQ(order_.StateOf(1).uses, 3u);
  order_->Audit();
}

TEST_F(LearntOrderTest, AChildOfOneThatLeftGoesOnWhereThatStood) {
  InsertHinted(1, {.turn = 2});
  order_.Erase(1);
  order_.Insert(2, 1);
  EXPECT_EQ(order_.StateOf(2).turn, 2u);
}

TEST_F(LearntOrderTest, ABlockBroughtForAWorkerThatWaitsIsUsedOnceByTheTouchToCome) {
  InsertArriving(1, Arrival::kAskedFor);
  InsertArriving(2, Arrival::kFromPeer);
  InsertArriving(3, Arrival::kComputed);
  InsertArriving(4, Arrival::kPrefetched);
  const auto uses = [&](uint64_t number) { return order_.StateOf(number).uses; };
  for (uint64_t i = 1; i <= 4; ++i) {
    EXPECT_EQ(uses(i), 0u);
    order_.Touch(i);
  }
  EXPECT_EQ(uses(1), 0u);
  EXPECT_EQ(uses(2), 0u);
  EXPECT_EQ(uses(3), 1u);
  EXPECT_EQ(uses(4), 1u);
  for (uint64_t i = 1; i <= 4; ++i) order_.Touch(i);
  EXPECT_EQ(uses(1), 1u);
  EXPECT_EQ(uses(4), 2u);
}

TEST_F(LearntOrderTest, WhatComesBackForAWorkerIsUsedOnceAndWhatIsPrefetchedNotYet) {
  for (uint64_t i = 1; i <= 2; ++i) order_.Insert(i);
  for (uint64_t i = 1; i <= 2; ++i) order_.Erase(i);
  InsertArriving(1, Arrival::kAskedFor);
  InsertArriving(2, Arrival::kPrefetched);
  EXPECT_EQ(order_.StateOf(1).uses, 1u);
  EXPECT_EQ(order_.StateOf(2).uses, 0u);
  order_.Touch(1);
  order_.Touch(2);
  EXPECT_EQ(order_.StateOf(1).uses, 1u);
  EXPECT_EQ(order_.StateOf(2).uses, 1u);
}

TEST_F(LearntOrderTest, WhatWillNotReturnLeavesFirst) {
  InsertUsed(1, 3);
  order_.Insert(4);
  order_->Advise(order_.At(2), {.will_not_return = true});
  EXPECT_EQ(order_.Victim(), 2u);
  order_->Advise(order_.At(2), {});
  EXPECT_EQ(order_.Victim(), 4u);
  order_->Touch(order_.At(3), {.will_not_return = true});
  EXPECT_EQ(order_.Victim(), 3u);
  order_->Audit();
}

TEST_F(LearntOrderTest, ABlockOfPriority100OutlivesOneOf0OfLikeUse) {
  ASSERT_EQ(order_->followed(), EvictionPolicy::kLearnt);
  InsertHinted(1, {.priority = kMaxPriority});
  InsertHinted(2, {.priority = 0});
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{2, 1}));
}

TEST_F(LearntOrderTest, PriorityDecidesBetweenBlocksAlike) {
  for (const int priority : {60, 50, 40}) {
    InsertHinted(static_cast<uint64_t>(priority), {.priority = static_cast<uint8_t>(priority)});
  }
  EXPECT_EQ(order_.EraseDownTo(0), (Numbers{40, 50, 60}));
}

TEST_F(LearntOrderTest, AdviceSaysWhyTheRequestEndedAndIsNoUse) {
  order_.Insert(1);
  const Moment last = order_->LastUseOf(order_.At(1));
  order_->Advise(order_.At(1), {.turn = 3, .finish = FinishReason::kToolCalls});
  EXPECT_EQ(order_.StateOf(1).finish, static_cast<uint32_t>(FinishReason::kToolCalls));
  EXPECT_EQ(order_.StateOf(1).uses, 0u);
  EXPECT_EQ(order_.StateOf(1).turn, 0u);
  EXPECT_EQ(order_->LastUseOf(order_.At(1)), last);
  order_->Audit();
}

TEST_F(LearntOrderTest, HeightsAreCountedUpToTwoOrToldByTheFollowers) {
  order_.InsertChain(1, 4);
  EXPECT_EQ(order_.StateOf(1).height, 2u);
  EXPECT_EQ(order_.StateOf(2).height, 2u);
  EXPECT_EQ(order_.StateOf(3).height, 1u);
  EXPECT_EQ(order_.StateOf(4).height, 0u);
  auto newcomer = NumberedOrder::Comes(10);
  for (const uint32_t followers : {0, 1, 2, 1000}) {
    newcomer.key = NumberedOrder::KeyOf(10 + followers);
    newcomer.followers = followers;
    order_.Insert(newcomer);
    EXPECT_EQ(order_.StateOf(10 + followers).height, std::min(followers, 2U));
  }
}

TEST_F(LearntOrderTest, ARequestThatGoesOnFromTheLastBlocksIsALaterTurnAndAForkBeginsAnew) {
  order_.InsertChain(1, 4);
  for (const uint64_t number : {4, 3, 2, 1}) order_.Touch(number);
  order_.Insert(5, 4);
  order_.Insert(6, 5);
  order_.Insert(20, 2);
  EXPECT_EQ(order_.StateOf(5).turn, 1u);
  EXPECT_EQ(order_.StateOf(6).turn, 1u) << "of the same request";
  EXPECT_EQ(order_.StateOf(20).turn, 0u);
  for (const uint64_t number : {6, 5, 4, 3, 2, 1}) order_.Touch(number);
  order_.Insert(7, 6);
  EXPECT_EQ(order_.StateOf(7).turn, 2u);
}

// AskingTest asks for blocks in a tier of 64.
class AskingTest : public ::testing::Test {
 protected:
  // Uses the block, or inserts it if it is admitted; returns whether it was there.
  bool Ask(uint64_t number) {
    if (order_.Contains(number)) {
      order_.Touch(number);
      return true;
    }
    const auto newcomer = NumberedOrder::Comes(number);
    if (order_->size() == 64) {
      if (!order_->Admits(newcomer)) {
        order_->Refuse(newcomer);
        return false;
      }
      order_.Erase(*order_.Victim());
    }
    order_.Insert(newcomer);
    return false;
  }
  // Returns the share of uses that are found where one block in twelve is used again, once in 48
  // seconds, until it has been used twelve times; the others are never used again. Between two uses
  // more blocks pass than the tier holds.
  double ShareFoundOfConversations() {
    std::deque<uint64_t> going_on;
    int found = 0;
    constexpr int kSeconds = 6000;
    for (int i = 0; i < kSeconds; ++i) {
      order_.Wait(absl::Seconds(1));
      Ask(next_++);
      if (i % 12 == 0) going_on.push_back(next_ - 1);
      if (going_on.size() > 48) going_on.pop_front();
      found += Ask(going_on[static_cast<size_t>(i) % going_on.size()]) ? 1 : 0;
    }
    order_->Audit();
    return static_cast<double>(found) / kSeconds;
  }
  // Uses some blocks again and again; between two uses of one, more blocks pass that are used once
  // than the tier holds. LRU finds nothing.
  void AskForHotAmongScans() {
    for (int i = 0; i < 4000; ++i) {
      order_.Wait(absl::Seconds(1));
      Ask(next_++);
      Ask(next_++);
      if (i % 2 == 0) Ask(kHot + static_cast<uint64_t>(i / 2 % 40));
    }
  }
  // Uses all blocks twice, the second time after 20 others. LRU finds all.
  void AskForEachTwice(int times) {
    for (int i = 0; i < times; ++i) {
      order_.Wait(absl::Seconds(1));
      Ask(next_++);
      if (i >= 20) Ask(next_ - 21);
    }
  }

  static constexpr uint64_t kHot = uint64_t{1} << 40;
  NumberedOrder order_{EvictionPolicy::kLearnt};
  uint64_t next_ = 0;
};

TEST_F(AskingTest, APrefetchIsNoQuestionForTheReferee) {
  auto newcomer = NumberedOrder::Comes(1);
  newcomer.arrival = Arrival::kPrefetched;
  order_.Insert(newcomer);
  newcomer.key = NumberedOrder::KeyOf(2);
  order_->Refuse(newcomer);
  EXPECT_EQ(order_->Summary().score.asked, 0);
  order_.Touch(1);
  order_->Refuse(NumberedOrder::Comes(3));
  EXPECT_NEAR(order_->Summary().score.asked, 2, 0.01);
}

TEST_F(AskingTest, TheOrderIsLruUntilSomethingIsLearnt) {
  for (int use = 0; use < 5; ++use) {
    order_.Wait(absl::Seconds(1));
    use == 0 ? order_.Insert(1) : order_.At(1);
    order_.Touch(1);
  }
  order_.Insert(2);
  EXPECT_EQ(order_->followed(), EvictionPolicy::kLru);
  EXPECT_EQ(order_.Victim(), 1u);
  EXPECT_TRUE(order_->Admits(NumberedOrder::Comes(3)));
  order_->Advise(order_.At(2), {.will_not_return = true});
  EXPECT_EQ(order_.Victim(), 2u) << "hints count from the first";
  order_->Advise(order_.At(2), {});
  for (int lesson = 0; lesson < 1100; ++lesson) order_.Touch(1);
  EXPECT_EQ(order_->followed(), EvictionPolicy::kLearnt);
  order_.Insert(4);
  EXPECT_EQ(order_.Victim(), 2u);
}

TEST_F(AskingTest, ConversationsThatGoOnOutstayThoseThatEnd) {
  const double share = ShareFoundOfConversations();
  EXPECT_EQ(order_->followed(), EvictionPolicy::kLearnt);
  EXPECT_GT(share, 0.8);
}

TEST_F(AskingTest, TheLearntOrderGivesWayWhileLruFindsMoreAndComesBack) {
  AskForHotAmongScans();
  ASSERT_EQ(order_->followed(), EvictionPolicy::kLearnt);
  ASSERT_GT(order_->Summary().score.learnt, 2 * order_->Summary().score.lru);
  AskForEachTwice(600);
  EXPECT_EQ(order_->followed(), EvictionPolicy::kLru) << "what was learnt is wrong by now";
  EXPECT_EQ(order_->policy(), EvictionPolicy::kLearnt);
  EXPECT_TRUE(order_->Admits(NumberedOrder::Comes(next_))) << "LRU refuses nobody";
  order_->Audit();
  AskForHotAmongScans();
  EXPECT_EQ(order_->followed(), EvictionPolicy::kLearnt);
  order_->Audit();
}

// LearntOrderModel checks the promises about one victim and several, whatever was learnt.
class LearntOrderModel : public ::testing::TestWithParam<uint64_t> {};

TEST_P(LearntOrderModel, SeveralVictimsAreThoseThatWouldLeaveOneAfterTheOther) {
  std::printf("seed %d\n", static_cast<int>(GetParam()));
  std::mt19937_64 random(GetParam());
  NumberedOrder order(EvictionPolicy::kLearnt);
  const auto accept = [](const BlockKey& key) { return key.hi % 16 != 0; };
  uint64_t next = 1;
  for (int round = 0; round < 25; ++round) {
    // Inserts members of trees, and uses them in any order.
    for (int i = 0; i < 60; ++i, ++next) {
      const uint64_t parent = next - std::min(next, random() % 50);
      auto newcomer = NumberedOrder::Comes(
          next, parent == next || parent == 0 ? std::nullopt : std::optional(parent));
      newcomer.hint.conversation = random() % 8;
      order->NoteBelow(order.Insert(newcomer), random() % 2 == 0);
      const uint64_t used = next - std::min(next, random() % 80);
      if (order.Contains(used)) order.Touch(used);
      order.Wait(absl::Milliseconds(random() % 4000));
    }
    order->Audit();
    Numbers held;
    for (int i = 0; i < 3; ++i) {
      const uint64_t number = next - 1 - random() % 50;
      if (!order->IsCandidate(order.At(number))) continue;
      order.Hold(number);
      held.push_back(number);
    }
    const std::vector<BlockKey> victims = order->VictimsWhere(40, 1000, accept);
    for (const BlockKey& victim : victims) {
      ASSERT_EQ(victim, order->VictimWhere(1000, accept));
      const uint64_t number = *NumberedOrder::NumberOf(victim);
      ASSERT_TRUE(order->IsCandidate(order.At(number)));
      order.Erase(number);
    }
    const bool any_left = order->VictimWhere(1000, accept).has_value();
    ASSERT_TRUE(victims.size() == 40 || !any_left);
    // The first of all is the one that Victim() names.
    const std::optional<BlockKey> first =
        order->VictimWhere(1, [](const BlockKey&) { return true; });
    ASSERT_EQ(order->Victim(), first);
    for (const uint64_t number : held) order.Unhold(number);
    order->Audit();
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, LearntOrderModel, ::testing::Range<uint64_t>(1, 7));

}  // namespace
}  // namespace kvtier
