#include "core/reuse_hazards.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

constexpr uint64_t kAges[] = {1, 20, 100, 500, 3000, 20'000, 200'000, 5'000'000, uint64_t{1} << 40};

void LearnTimes(ReuseHazards* hazards, int times, size_t of_class, uint64_t age, bool used) {
  for (int i = 0; i < times; ++i) hazards->Learn(of_class, age, used);
}

TEST(ReuseHazardsTest, WithoutLessonsWhoWaitedLongestIsWorthLeast) {
  const ReuseHazards hazards(2);
  double before = hazards.Worth(0, 0);
  for (const uint64_t age : kAges) {
    const double worth = hazards.Worth(0, age);
    EXPECT_GT(worth, 0);
    EXPECT_LE(worth, before) << age;
    EXPECT_EQ(worth, hazards.Worth(1, age)) << "no class is better than another";
    before = worth;
  }
}

TEST(ReuseHazardsTest, AClassThatIsUsedIsWorthMoreThanOneThatIsNot) {
  ReuseHazards hazards(2);
  LearnTimes(&hazards, 512, 0, 1000, true);
  LearnTimes(&hazards, 512, 1, 100'000, false);
  for (const uint64_t age : {1, 100, 500}) {
    EXPECT_GT(hazards.Worth(0, age), 10 * hazards.Worth(1, age)) << age;
  }
}

TEST(ReuseHazardsTest, WhatIsDueIsWorthMoreThanWhatIsOverdue) {
  ReuseHazards hazards(1);
  LearnTimes(&hazards, 640, 0, 1000, true);
  LearnTimes(&hazards, 640, 0, 50'000, false);
  EXPECT_GT(hazards.Worth(0, 700), 5 * hazards.Worth(0, 3000));
  EXPECT_GT(hazards.Worth(0, 700), hazards.Worth(0, 1)) << "the longer it waited, the nearer";
}

TEST(ReuseHazardsTest, AClassWithLittleEvidenceIsTakenForTheMean) {
  ReuseHazards hazards(3);
  LearnTimes(&hazards, 1024, 0, 1000, true);
  const double known = hazards.Worth(0, 500);
  EXPECT_NEAR(hazards.Worth(2, 500) / known, 1, 0.2);
}

TEST(ReuseHazardsDeathTest, AClassThatDoesNotExistIsAnError) {
  ReuseHazards hazards(2);
  EXPECT_DEATH(hazards.Learn(2, 1, true), "of_class");
  EXPECT_DEATH(hazards.Worth(2, 1), "of_class");
}

}  // namespace
}  // namespace kvtier
