#include "core/departed_blocks.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/numbered_key.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr Moment kSecond = 1'000'000;
constexpr size_t kWays = 16;  // Entries that share a set.

BlockKey KeyInFirstSet(const DepartedBlocks& departed, uint64_t number) {
  return {.hi = number * (departed.capacity() / kWays), .lo = NumberedKey(number).lo};
}

TEST(DepartedBlocksTest, RemembersUsesTurnAndTimeOfABlockThatLeft) {
  DepartedBlocks departed;
  EXPECT_FALSE(departed.Find(NumberedKey(1), 0).has_value());
  departed.Add(NumberedKey(1), {.uses = 2, .turn = 1, .gap = 4, .height = 2, .ended = 1},
               7 * kSecond);
  const auto found = departed.Find(NumberedKey(1), 107 * kSecond);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state.uses, 2u);
  EXPECT_EQ(found->state.turn, 1u);
  EXPECT_EQ(found->seconds, 100);
  EXPECT_EQ(found->state.height, 0u) << "the rest is as of a new block";
  EXPECT_EQ(found->state.gap, 0u);
  EXPECT_EQ(found->state.Weight(), 0);
}

TEST(DepartedBlocksTest, CountsUpToThreeAreRemembered) {
  DepartedBlocks departed;
  departed.Add(NumberedKey(1), {.uses = 15, .turn = 9}, 0);
  const auto found = departed.Find(NumberedKey(1), 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->state.uses, 3u);
  EXPECT_EQ(found->state.turn, 3u);
}

TEST(DepartedBlocksTest, TimeIsRememberedForEighteenHours) {
  DepartedBlocks departed;
  constexpr Moment kLeft = 1'000'000 * kSecond;
  departed.Add(NumberedKey(1), {}, kLeft);
  const auto seconds = [&](Moment after) {
    return departed.Find(NumberedKey(1), kLeft + after * kSecond)->seconds;
  };
  EXPECT_EQ(seconds(0), 0);
  EXPECT_EQ(seconds(65'535), 65'535);
  EXPECT_EQ(seconds(65'536), 0) << "counted modulo 2^16 seconds";
}

TEST(DepartedBlocksTest, WhatCameBackIsForgottenAndTheOthersStay) {
  DepartedBlocks departed;
  departed.FitTo(1);
  for (uint64_t i = 0; i < 5; ++i) departed.Add(KeyInFirstSet(departed, i), {}, i * kSecond);
  departed.Remove(KeyInFirstSet(departed, 2));
  departed.Remove(KeyInFirstSet(departed, 9));  // This key was never here.
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(departed.Find(KeyInFirstSet(departed, i), 9 * kSecond).has_value(), i != 2) << i;
  }
}

TEST(DepartedBlocksTest, TheOneThatLeftFirstIsForgottenFirst) {
  DepartedBlocks departed;
  departed.FitTo(1);
  for (uint64_t i = 0; i <= kWays; ++i) departed.Add(KeyInFirstSet(departed, i), {}, i * kSecond);
  EXPECT_FALSE(departed.Find(KeyInFirstSet(departed, 0), 0).has_value());
  for (uint64_t i = 1; i <= kWays; ++i) {
    EXPECT_TRUE(departed.Find(KeyInFirstSet(departed, i), 99 * kSecond).has_value()) << i;
  }
}

TEST(DepartedBlocksTest, FourForEachBlockOfTheTierFitAndAtLeastThoseOfASmallOne) {
  DepartedBlocks departed;
  departed.FitTo(1);
  EXPECT_EQ(departed.capacity(), kMinDeparted);
  departed.FitTo(100'000);
  const size_t capacity = departed.capacity();
  EXPECT_GE(capacity, 100'000 * kDepartedPerBlock);
  EXPECT_LT(capacity, 100'000 * kDepartedPerBlock + kWays) << "and no more";
  departed.FitTo(10);
  EXPECT_EQ(departed.capacity(), capacity) << "never less than before";
}

TEST(DepartedBlocksTest, GrowthForgetsNothing) {
  DepartedBlocks departed;
  departed.FitTo(1);
  std::mt19937_64 random(testing::TestSeed());
  std::vector<BlockKey> keys;
  // A quarter of the room: hardly any set overflows.
  for (size_t i = 0; i < kMinDeparted / 4; ++i) keys.push_back({.hi = random(), .lo = random()});
  for (const BlockKey& key : keys) departed.Add(key, {.uses = 1}, 5 * kSecond);
  const auto forgotten = [&] {
    size_t count = 0;
    for (const BlockKey& key : keys) count += departed.Find(key, 6 * kSecond) ? 0 : 1;
    return count;
  };
  const size_t before = forgotten();
  EXPECT_LE(before, keys.size() / 100);
  for (size_t members = kMinDeparted / 4; members < 2 * kMinDeparted; members += 777) {
    departed.FitTo(members);
    ASSERT_LE(forgotten(), before) << members;
  }
}

TEST(DepartedBlocksTest, FewStrangersAreTakenForBlocksThatLeft) {
  DepartedBlocks departed;
  departed.FitTo(1);
  std::mt19937_64 random(testing::TestSeed());
  const auto stranger = [&] { return BlockKey{.hi = random(), .lo = random()}; };
  for (size_t i = 0; i < 2 * departed.capacity(); ++i) departed.Add(stranger(), {}, 0);
  constexpr int kAsked = 50'000;
  int taken = 0;
  for (int i = 0; i < kAsked; ++i) taken += departed.Find(stranger(), 0).has_value() ? 1 : 0;
  EXPECT_LT(taken, kAsked / 200) << "one in 250 is expected";
}

}  // namespace
}  // namespace kvtier
