#include "core/reuse_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace kvtier {
namespace {

size_t ActivityIn(const ReuseState& state) { return ActivityOf(FamilyOf(state.Class())); }

TEST(ReuseStateTest, ABlockIsNewInTheFirstRequestOfItsConversation) {
  const ReuseState state;
  EXPECT_EQ(ActivityIn(state), 0u);
  EXPECT_EQ(state.Weight(), 0);
}

TEST(ReuseStateTest, ActivityGrowsWithTurnsAndThenWithUses) {
  ReuseState state;
  for (const size_t activity : {0, 1, 2, 2}) {
    EXPECT_EQ(ActivityIn(state), activity) << "turn " << state.turn;
    ++state.turn;
  }
  for (const size_t activity : {3, 4, 4, 5, 5}) {
    state.Use(1);
    EXPECT_EQ(ActivityIn(state), activity) << "uses " << state.uses;
  }
}

TEST(ReuseStateTest, ClassesAreDistinctAndEachIsInRange) {
  std::set<ReuseClass> classes;
  for (uint32_t finish = 0; finish < kReuseFinishes; ++finish) {
    for (uint32_t gap = 0; gap < kReuseGaps; ++gap) {
      for (uint32_t height = 0; height < 2; ++height) {
        for (const uint32_t turn : {0, 1, 2}) {
          const ReuseState fresh{.turn = turn, .gap = gap, .height = height, .finish = finish};
          classes.insert(fresh.Class());
        }
        for (const uint32_t uses : {1, 2, 4}) {
          const ReuseState used{.uses = uses, .gap = gap, .height = height, .finish = finish};
          classes.insert(used.Class());
        }
      }
    }
  }
  EXPECT_EQ(classes.size(), kReuseClasses);
  EXPECT_LT(static_cast<size_t>(*classes.rbegin()), kReuseClasses);
}

TEST(ReuseStateTest, GapIsTheBucketOfTheTimeSinceTheLastUse) {
  ReuseState state;
  EXPECT_EQ(state.gap, 0u) << "one request so far";
  struct Case {
    double seconds;
    uint32_t gap;
  };
  for (const Case& c : {Case{0, 1},
                        {9.9, 1},
                        {10, 2},
                        {29.9, 2},
                        {30, 3},
                        {89.9, 3},
                        {90, 4},
                        {299, 4},
                        {300, 5},
                        {1e9, 5}}) {
    state.Use(c.seconds);
    EXPECT_EQ(state.gap, c.gap) << c.seconds;
  }
}

TEST(ReuseStateTest, UsesAndTurnsAreCountedUpToFifteen) {
  ReuseState state;
  state.Take({.turn = 1'000'000});
  EXPECT_EQ(state.turn, ReuseState::kMaxCount);
  for (int i = 0; i < 20; ++i) state.Use(1);
  EXPECT_EQ(state.uses, ReuseState::kMaxCount);
  EXPECT_EQ(state.OfChild().turn, ReuseState::kMaxCount);
}

TEST(ReuseStateTest, TenStepsOfPriorityDoubleTheWorth) {
  ReuseState state;
  for (const int priority : {0, 20, 40, 50, 60, 80, 100}) {
    state.Take({.priority = static_cast<uint8_t>(priority)});
    EXPECT_EQ(state.Weight(), (priority - 50) / 10 * 2) << priority;
  }
}

TEST(ReuseStateTest, WhatWillNotReturnWeighsLessThanAnyPriority) {
  ReuseState lowest;
  lowest.Take({.priority = 0});
  ReuseState ended;
  ended.Take({.will_not_return = true, .priority = kMaxPriority});
  EXPECT_LT(ended.Weight(), lowest.Weight());
}

TEST(ReuseStateTest, WhatWasLeftBehindWeighsASixteenthUntilItIsUsed) {
  ReuseState state;
  state.left_behind = 1;
  EXPECT_EQ(state.Weight(), -8);
  state.TakeAdvice({});
  EXPECT_EQ(state.Weight(), -8) << "advice is no use";
  state.Take({});
  EXPECT_EQ(state.Weight(), 0);
  state.left_behind = 1;
  EXPECT_EQ(state.OfChild().left_behind, 0u);
}

TEST(ReuseStateTest, WhatTheTierBelowHasCostsAQuarter) {
  ReuseState state;
  EXPECT_EQ(state.Cost(), 0);
  state.is_below = 1;
  EXPECT_EQ(state.Cost(), -4);
  state.depth_cost = 7;
  EXPECT_EQ(state.Cost(), 3);
}

// Each block is a hundredth as long as the prefix at which the cost has doubled.
TEST(ReuseStateTest, TheCostOfADepthGrowsAsThePrefixDoes) {
  std::mt19937_64 random(1);
  constexpr int kChains = 2000;
  for (const int blocks : {1, 10, 50, 100, 300, 1000}) {
    double sum = 0;
    for (int chain = 0; chain < kChains; ++chain) {
      ReuseState state;
      for (int i = 0; i < blocks; ++i) state.GrowDepth(state.depth_cost, 0.01, random());
      sum += state.depth_cost;
    }
    const double expected = 2 * std::log2(1 + blocks * 0.01);
    EXPECT_NEAR(sum / kChains, expected, 0.5) << blocks;
  }
}

TEST(ReuseStateTest, TheCostOfADepthEndsAtSeven) {
  ReuseState state;
  for (int i = 0; i < 20; ++i) state.GrowDepth(state.depth_cost, 1e9, 5);
  EXPECT_EQ(state.depth_cost, 7u);
}

TEST(ReuseStateTest, TheEngineNamesTheTurnOfTheRequestThatBroughtTheBlock) {
  ReuseState state;
  state.Take({.turn = 3});
  EXPECT_EQ(state.turn, 3u);
  state.Take({});
  EXPECT_EQ(state.turn, 3u) << "no word of it";
  state.Use(1);
  state.Take({.turn = 5});
  EXPECT_EQ(state.turn, 3u) << "the request that uses it is a later one";
  state.TakeAdvice({.turn = 7, .finish = FinishReason::kToolCalls});
  EXPECT_EQ(state.turn, 3u);
  EXPECT_EQ(state.finish, static_cast<uint32_t>(FinishReason::kToolCalls));
}

TEST(ReuseStateTest, ABlockBelowOneThatWasNotUsedSinceCameInTheSameRequest) {
  ReuseState parent;
  parent.turn = 2;
  parent.gap = 3;
  parent.height = 2;
  const ReuseState child = parent.OfChild();
  EXPECT_EQ(child.turn, 2u);
  EXPECT_EQ(child.gap, 3u);
  EXPECT_EQ(child.uses, 0u);
  EXPECT_EQ(child.height, 0u);
}

TEST(ReuseStateTest, ABlockBelowTheLastUsedOnesContinuesTheConversation) {
  for (const uint32_t height : {0, 1}) {
    ReuseState parent{.turn = 1, .height = height};
    parent.Use(20);
    parent.Use(100);
    const ReuseState child = parent.OfChild();
    EXPECT_EQ(child.turn, 3u);
    EXPECT_EQ(child.gap, parent.gap);
  }
}

TEST(ReuseStateTest, ABlockThatForksFromTheMiddleOfAUsedRequestBeginsAnew) {
  ReuseState parent{.turn = 1, .height = 2};
  parent.Use(20);
  const ReuseState child = parent.OfChild();
  EXPECT_EQ(child.turn, 0u);
  EXPECT_EQ(child.gap, 0u);
}

TEST(ReuseStateTest, AChildTakesNeitherWeightNorFinishFromItsParent) {
  ReuseState parent;
  parent.Take({.finish = FinishReason::kStop, .will_not_return = true, .priority = 90});
  const ReuseState child = parent.OfChild();
  EXPECT_EQ(child.Weight(), 0);
  EXPECT_EQ(child.finish, 0u);
}

}  // namespace
}  // namespace kvtier
