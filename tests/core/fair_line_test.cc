#include "core/fair_line.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <utility>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

TEST(FairLineTest, PartiesTakeTurnsAndThingsOfOneLeaveInTheirOrder) {
  FairLine<int> line;
  for (const int thing : {1, 2, 3, 4}) line.Push(0, 1, thing);
  for (const int thing : {11, 12}) line.Push(5, 1, thing);
  std::vector<int> left;
  while (!line.empty()) left.push_back(line.Pop());
  EXPECT_EQ(left, (std::vector<int>{1, 11, 2, 12, 3, 4}));
}

TEST(FairLineTest, TurnsAreEqualByCost) {
  FairLine<int> line;
  for (int i = 0; i < 100; ++i) line.Push(0, 4, 0);
  for (int i = 0; i < 100; ++i) line.Push(1, 1, 1);
  int small = 0;
  for (int i = 0; i < 50; ++i) small += line.Pop();
  EXPECT_EQ(small, 40);
}

TEST(FairLineTest, APartyHasItsWeightTimesWhatOneOfWeightOneHas) {
  FairLine<int> line;
  line.SetWeight(1, 3);
  for (int i = 0; i < 100; ++i) line.Push(0, 300, 0);
  for (int i = 0; i < 100; ++i) line.Push(1, 300, 1);
  int heavy = 0;
  for (int i = 0; i < 40; ++i) heavy += line.Pop();
  EXPECT_EQ(heavy, 30);
  line.SetWeight(1, 1);
  heavy = 0;
  for (int i = 0; i < 40; ++i) heavy += line.Pop();
  EXPECT_EQ(heavy, 20) << "from then on";
}

// A turn that costs less than the party's weight is not free.
TEST(FairLineTest, NothingIsForFreeHoweverMuchAPartyWeighs) {
  FairLine<int> line;
  line.SetWeight(1, 1000);
  for (int i = 0; i < 100; ++i) line.Push(0, 1, 0);
  for (int i = 0; i < 100; ++i) line.Push(1, 1, 1);
  int heavy = 0;
  for (int i = 0; i < 100; ++i) heavy += line.Pop();
  EXPECT_EQ(heavy, 50);
}

TEST(FairLineTest, APartyThatHadNothingWaitingBeginsLevelWithTheOthers) {
  FairLine<int> line;
  for (int i = 0; i < 100; ++i) line.Push(0, 1, 0);
  for (int i = 0; i < 50; ++i) line.Pop();
  for (int i = 0; i < 50; ++i) line.Push(1, 1, 1);
  int late = 0;
  for (int i = 0; i < 10; ++i) late += line.Pop();
  EXPECT_EQ(late, 5);
}

TEST(FairLineTest, WhatIsRemovedHasNoTurn) {
  FairLine<int> line;
  line.Push(0, 1, 1);
  const auto place = line.Push(0, 100, 2);
  line.Push(0, 1, 3);
  EXPECT_EQ(line.Remove(0, place), 2);
  EXPECT_EQ(line.size(), 2U);
  EXPECT_EQ(line.TakeAll(), (std::vector<int>{1, 3}));
  EXPECT_TRUE(line.empty());
}

// While two parties wait, the costs that have left for each differ by at most two of the largest
// things.
TEST(FairLineModel, NoPartyThatWaitsFallsBehindAnotherByMoreThanOneThing) {
  constexpr uint64_t kMostCost = 9;
  std::mt19937_64 random(testing::TestSeed());
  for (int round = 0; round < 50; ++round) {
    FairLine<std::pair<size_t, uint64_t>> line;
    std::vector<std::deque<uint64_t>> plain(4);
    // Lead of party a over party b, [a][b]: costs of a that have left since both began to wait,
    // less those of b.
    std::vector<std::vector<int64_t>> behind(4, std::vector<int64_t>(4));
    for (int step = 0; step < 1000; ++step) {
      if (line.empty() || random() % 2 == 0) {
        const size_t party = random() % 4;
        const uint64_t cost = 1 + random() % kMostCost;
        if (plain[party].empty()) {
          for (size_t other = 0; other < 4; ++other)
            behind[party][other] = behind[other][party] = 0;
        }
        plain[party].push_back(cost);
        line.Push(party, cost, {party, cost});
        continue;
      }
      const auto [party, cost] = line.Pop();
      ASSERT_EQ(plain[party].front(), cost);
      plain[party].pop_front();
      for (size_t other = 0; other < 4; ++other) {
        if (other == party || plain[other].empty()) continue;
        behind[party][other] += static_cast<int64_t>(cost);
        behind[other][party] -= static_cast<int64_t>(cost);
        ASSERT_LE(behind[party][other], static_cast<int64_t>(2 * kMostCost));
      }
    }
  }
}

}  // namespace
}  // namespace kvtier
