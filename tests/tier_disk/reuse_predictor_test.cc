#include "tier_disk/admission/reuse_predictor.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/numbered_key.h"
#include "tests/testing/test_seed.h"
#include "tier_disk/admission/reuse_ranking.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr uint64_t kDisk = kMaxReuseGhosts;  // Size of the disk in bytes.
constexpr ReuseEvidence kNew{};
constexpr ReuseEvidence kHit{.host_hits = 1};

// Traffic judges blocks of which some come back at once. Two bytes are written for each: a round of
// the ghosts overwrites the disk twice, so every key stays in the sample.
class Traffic {
 public:
  explicit Traffic(ReusePredictor* predictor) : predictor_(predictor) {}
  // Makes every `returning`-th of `count` blocks come back; 0: none.
  void Pass(const ReuseEvidence& evidence, uint64_t count, uint64_t returning) {
    for (uint64_t i = 0; i < count; ++i) {
      ++block_;
      predictor_->Judged(NumberedKey(block_), evidence, 2 * block_);
      if (returning > 0 && i % returning == 0) predictor_->Entered(NumberedKey(block_), 2 * block_);
    }
  }

 private:
  ReusePredictor* const predictor_;
  uint64_t block_ = 0;
};

TEST(ReusePredictorTest, KnowsNothingAtFirst) {
  const ReusePredictor predictor(kDisk);
  EXPECT_DOUBLE_EQ(predictor.Predict(kNew), 0.5);
  EXPECT_DOUBLE_EQ(predictor.Predict(kHit), 0.5);
}

TEST(ReusePredictorTest, LearnsTheShareOfEachClass) {
  ReusePredictor predictor(kDisk);
  Traffic traffic(&predictor);
  traffic.Pass(kNew, 20000, 10);
  traffic.Pass(kHit, 20000, 2);
  EXPECT_NEAR(predictor.Predict(kNew), 0.1, 0.02);
  EXPECT_NEAR(predictor.Predict(kHit), 0.5, 0.02);
}

TEST(ReusePredictorTest, AClassNeverSeenPredictsTheMean) {
  ReusePredictor predictor(kDisk);
  Traffic traffic(&predictor);
  traffic.Pass(kNew, 20000, 10);
  EXPECT_NEAR(predictor.Predict({.seen_before = true}), 0.1, 0.03);
}

TEST(ReusePredictorTest, AReturnAfterTheDiskWasWrittenOverIsNone) {
  ReusePredictor in_time(kDisk);
  ReusePredictor too_late(kDisk);
  for (uint64_t i = 0; i < 1000; ++i) {
    in_time.Judged(NumberedKey(i), kNew, 0);
    too_late.Judged(NumberedKey(i), kNew, 0);
    in_time.Entered(NumberedKey(i), kDisk);
    too_late.Entered(NumberedKey(i), kDisk + 1);
  }
  EXPECT_GT(in_time.Predict(kNew), 0.8);
  EXPECT_LT(too_late.Predict(kNew), 0.2);
}

TEST(ReusePredictorTest, ABlockJudgedAgainCountsInItsNewClassOnly) {
  ReusePredictor predictor(kDisk);
  Traffic traffic(&predictor);
  traffic.Pass(kNew, 4000, 2);
  const double before = predictor.Predict(kNew);
  for (uint64_t i = 1'000'000; i < 1'001'000; ++i) {
    predictor.Judged(NumberedKey(i), kNew, 0);
    predictor.Judged(NumberedKey(i), kHit, 0);
  }
  EXPECT_NEAR(predictor.Predict(kNew), before, 0.05);
  EXPECT_LT(predictor.Predict(kHit), before - 0.1);
}

TEST(ReusePredictorTest, FollowsTrafficThatChanges) {
  ReusePredictor predictor(kDisk);
  Traffic traffic(&predictor);
  traffic.Pass(kNew, 50000, 1);
  EXPECT_GT(predictor.Predict(kNew), 0.9);
  traffic.Pass(kNew, 100000, 0);
  EXPECT_LT(predictor.Predict(kNew), 0.1);
}

TEST(ReusePredictorTest, WatchesFewerKeysWhereTheDiskOutlivesTheGhosts) {
  // Each block writes one byte; the disk lives for 16 rounds of the ghosts.
  constexpr uint64_t kBlocks = 16 * kMaxReuseGhosts;
  ReusePredictor predictor(kBlocks);
  std::mt19937_64 random(testing::TestSeed());
  std::vector<BlockKey> keys;
  for (uint64_t i = 0; i < 10 * kBlocks; ++i) {
    keys.push_back(NumberedKey(random()));
    predictor.Judged(keys.back(), kNew, i);
    // Half of the blocks return when half of a lifetime has passed.
    if (i >= kBlocks / 2 && i % 2 == 0) predictor.Entered(keys[i - kBlocks / 2], i);
  }
  EXPECT_GE(predictor.sample_shift(), 4);
  EXPECT_LE(predictor.sample_shift(), 5);
  EXPECT_NEAR(predictor.Predict(kNew), 0.5, 0.06);
}

TEST(ReuseRankingTest, TellsTheShareOfBetterBytes) {
  ReuseRanking ranking;
  EXPECT_EQ(ranking.ShareAbove(0.5), 0);
  ranking.Add(0.9, 100);
  ranking.Add(0.3, 200);
  ranking.Add(0.0001, 100);
  EXPECT_DOUBLE_EQ(ranking.ShareAbove(1.0), 0);
  EXPECT_DOUBLE_EQ(ranking.ShareAbove(0.9), 0);
  EXPECT_DOUBLE_EQ(ranking.ShareAbove(0.3), 0.25);
  EXPECT_DOUBLE_EQ(ranking.ShareAbove(1e-9), 0.75);
}

TEST(ReuseRankingTest, OldCandidatesFade) {
  ReuseRanking ranking;
  for (int i = 0; i < 10000; ++i) ranking.Add(0.9, 1);
  for (int i = 0; i < 100000; ++i) ranking.Add(0.1, 1);
  EXPECT_LT(ranking.ShareAbove(0.1), 0.01);
}

}  // namespace
}  // namespace kvtier
