#include "core/reuse_hazards.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr size_t kBuckets = ReuseHazards::kBuckets;

// Two classes of one family, and one of another activity.
const ReuseClass kTalk = ReuseState{}.Class();
const ReuseClass kTalkStopped = ReuseState{.finish = 1}.Class();
const ReuseClass kUsed = ReuseState{.uses = 1, .gap = 1}.Class();

double WorthAt(const ReuseHazards& hazards, ReuseClass of, double seconds) {
  return hazards.Worth(of, ReuseHazards::BucketOf(seconds));
}

void LearnTimes(ReuseHazards* hazards, int times, ReuseClass of, double seconds, bool used) {
  for (int i = 0; i < times; ++i) hazards->Learn(of, seconds, used);
}

TEST(ReuseHazardsTest, BucketsFollowOneAnotherFromZeroToInfinity) {
  EXPECT_EQ(ReuseHazards::BeginOf(0), 0);
  EXPECT_EQ(ReuseHazards::EndOf(0), 1);
  for (size_t i = 1; i < kBuckets; ++i) {
    EXPECT_EQ(ReuseHazards::BeginOf(i), ReuseHazards::EndOf(i - 1));
    EXPECT_LT(ReuseHazards::BeginOf(i), ReuseHazards::EndOf(i));
  }
  EXPECT_TRUE(std::isinf(ReuseHazards::EndOf(kBuckets - 1)));
  EXPECT_NEAR(ReuseHazards::BeginOf(kBuckets - 1) / 3600, 13, 1);
}

// The logarithm may be off by its last bit at an edge.
TEST(ReuseHazardsTest, AnAgeIsInTheBucketThatBeginsAtItOrBefore) {
  for (size_t i = 0; i < kBuckets; ++i) {
    const double begin = ReuseHazards::BeginOf(i);
    EXPECT_EQ(ReuseHazards::BucketOf(begin), i);
    EXPECT_EQ(ReuseHazards::BucketOf(std::nextafter(ReuseHazards::EndOf(i), 0)), i);
    if (i == 0) continue;
    EXPECT_EQ(ReuseHazards::BucketOf(std::nextafter(begin, 0)), i - 1);
  }
  EXPECT_EQ(ReuseHazards::BucketOf(1e12), kBuckets - 1);
}

TEST(ReuseHazardsTest, WithoutLessonsABlockThatWasUsedMoreIsWorthMore) {
  const ReuseHazards hazards;
  double before = 0;
  for (const uint32_t uses : {0, 1, 2, 4}) {
    const double worth = WorthAt(hazards, ReuseState{.uses = uses}.Class(), 30);
    EXPECT_GT(worth, before) << uses;
    before = worth;
  }
}

TEST(ReuseHazardsTest, WithoutLessonsABlockThatWaitedLongIsWorthLittle) {
  const ReuseHazards hazards;
  for (size_t c = 0; c < kReuseClasses; ++c) {
    const double young = WorthAt(hazards, ReuseClass(c), 10);
    EXPECT_LT(WorthAt(hazards, ReuseClass(c), 3600), young / 10) << c;
    EXPECT_LT(WorthAt(hazards, ReuseClass(c), 40'000), young / 1000) << c;
  }
}

TEST(ReuseHazardsTest, AClassThatIsUsedIsWorthMoreThanOneThatIsNot) {
  ReuseHazards hazards;
  LearnTimes(&hazards, 5000, kUsed, 100, true);
  LearnTimes(&hazards, 5000, kTalk, 100, false);
  hazards.Conclude({});
  for (const double age : {1, 20, 80}) {
    EXPECT_GT(WorthAt(hazards, kUsed, age), 10 * WorthAt(hazards, kTalk, age)) << age;
  }
}

TEST(ReuseHazardsTest, WhatIsDueIsWorthMoreThanWhatIsOverdueAndWhatIsDueLater) {
  ReuseHazards hazards;
  LearnTimes(&hazards, 10'000, kUsed, 100, true);
  LearnTimes(&hazards, 1000, kUsed, 5000, false);
  hazards.Conclude({});
  EXPECT_GT(WorthAt(hazards, kUsed, 95), 10 * WorthAt(hazards, kUsed, 300));
  EXPECT_GT(WorthAt(hazards, kUsed, 95), 2 * WorthAt(hazards, kUsed, 10));
}

TEST(ReuseHazardsTest, AClassThatNothingIsKnownOfIsItsFamily) {
  ReuseHazards hazards;
  LearnTimes(&hazards, 100'000, kTalk, 100, true);
  hazards.Conclude({});
  const double known = WorthAt(hazards, kTalk, 80);
  EXPECT_NEAR(WorthAt(hazards, kTalkStopped, 80) / known, 1, 0.1);
  EXPECT_LT(WorthAt(hazards, kUsed, 80), known) << "another activity";
}

TEST(ReuseHazardsTest, LittleEvidenceMovesTheWorthALittle) {
  ReuseHazards hazards;
  const double before = WorthAt(hazards, kUsed, 80);
  LearnTimes(&hazards, 3, kUsed, 100, true);
  hazards.Conclude({});
  EXPECT_NEAR(WorthAt(hazards, kUsed, 80) / before, 1, 0.25);
}

TEST(ReuseHazardsTest, ThoseThatWaitCountForThatConclusionOnly) {
  ReuseHazards with_waiting;
  ReuseHazards without;
  for (ReuseHazards* hazards : {&with_waiting, &without}) {
    LearnTimes(hazards, 2000, kUsed, 100, true);
  }
  const std::vector<ReuseHazards::Waiting> waiting(20'000, {.of = kUsed, .seconds = 200});
  with_waiting.Conclude(waiting);
  without.Conclude({});
  EXPECT_LT(WorthAt(with_waiting, kUsed, 95), WorthAt(without, kUsed, 95) / 2);
  with_waiting.Conclude({});
  without.Conclude({});
  EXPECT_EQ(WorthAt(with_waiting, kUsed, 95), WorthAt(without, kUsed, 95));
}

TEST(ReuseHazardsTest, LessonsCountFromTheNextConclusionOn) {
  ReuseHazards hazards;
  const uint64_t conclusion = hazards.conclusions();
  const double before = WorthAt(hazards, kUsed, 80);
  LearnTimes(&hazards, 1000, kUsed, 100, true);
  EXPECT_EQ(hazards.new_lessons(), 1000u);
  EXPECT_EQ(WorthAt(hazards, kUsed, 80), before);
  hazards.Conclude({});
  EXPECT_EQ(hazards.new_lessons(), 0u);
  EXPECT_EQ(hazards.conclusions(), conclusion + 1);
  EXPECT_NE(WorthAt(hazards, kUsed, 80), before);
}

TEST(ReuseHazardsTest, AnotherKindOfTrafficIsLearnt) {
  ReuseHazards hazards;
  const auto teach = [&](bool used) {
    for (int i = 0; i < 200; ++i) {
      LearnTimes(&hazards, 512, kUsed, 100, used);
      hazards.Conclude({});
    }
    return WorthAt(hazards, kUsed, 80);
  };
  const double used = teach(true);
  EXPECT_LT(teach(false), used / 2);
  EXPECT_NEAR(teach(true) / used, 1, 0.5);
}

TEST(ReuseHazardsTest, WorthIsPositiveAndFiniteWhateverWasLearnt) {
  std::mt19937_64 random(testing::TestSeed());
  ReuseHazards hazards;
  for (int round = 0; round < 40; ++round) {
    for (int i = 0; i < 500; ++i) {
      const double seconds = std::exp2(static_cast<double>(random() % 2400) / 100.0) - 1;
      LearnTimes(&hazards, 1 + static_cast<int>(random() % 50),
                 ReuseClass(random() % kReuseClasses), seconds, random() % 2 == 0);
    }
    hazards.Conclude({});
  }
  for (size_t c = 0; c < kReuseClasses; ++c) {
    for (size_t bucket = 0; bucket < kBuckets; ++bucket) {
      const double worth = hazards.Worth(ReuseClass(c), bucket);
      ASSERT_TRUE(worth > 0 && std::isfinite(worth)) << c << " " << bucket << " " << worth;
    }
  }
}

TEST(ReuseHazardsTest, TheChanceOfAUseIsWhatWasSeen) {
  ReuseHazards hazards;
  LearnTimes(&hazards, 30'000, kUsed, 100, true);
  LearnTimes(&hazards, 10'000, kUsed, 5000, false);
  hazards.Conclude({});
  EXPECT_NEAR(hazards.ChanceWithin(kUsed, 0, 50), 0, 0.05);
  // The measured chance was 3 in 4, and the estimate is drawn toward the prior.
  EXPECT_NEAR(hazards.ChanceWithin(kUsed, 0, 1000), 0.7, 0.1);
  EXPECT_NEAR(hazards.ChanceWithin(kUsed, 1000, 1000), 0, 0.05);
  EXPECT_EQ(hazards.ChanceWithin(kUsed, 100, 0), 0);
  // The chances of two successive stretches of time give the chance of both together.
  const double unused =
      (1 - hazards.ChanceWithin(kUsed, 10, 80)) * (1 - hazards.ChanceWithin(kUsed, 90, 400'000));
  EXPECT_NEAR(unused, 1 - hazards.ChanceWithin(kUsed, 10, 400'080), 1e-5);
}

TEST(ReuseHazardsTest, RankingHoldsEachBucketOnceFromTheLeastWorthToTheMost) {
  ReuseHazards hazards;
  LearnTimes(&hazards, 10'000, kUsed, 100, true);
  LearnTimes(&hazards, 10'000, kUsed, 5000, true);
  hazards.Conclude({});
  for (const ReuseClass of : {kTalk, kTalkStopped, kUsed}) {
    std::vector<bool> seen(kBuckets, false);
    double before = 0;
    for (const uint8_t bucket : hazards.Ranking(of)) {
      EXPECT_FALSE(seen[bucket]);
      seen[bucket] = true;
      EXPECT_GE(hazards.Worth(of, bucket), before);
      before = hazards.Worth(of, bucket);
    }
  }
}

}  // namespace
}  // namespace kvtier
