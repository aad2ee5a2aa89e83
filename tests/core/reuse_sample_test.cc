#include "core/reuse_sample.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/testing/numbered_key.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

constexpr Moment kSecond = 1'000'000;

class ReuseSampleTest : public ::testing::Test {
 protected:
  void Ask(uint64_t number, const ReuseState& state = {}) { Ask(NumberedKey(number), state); }
  void Ask(const BlockKey& key, const ReuseState& state = {}) {
    now_ += kSecond;
    sample_.Asked(key, state, now_, members_);
    sample_.Audit();
  }
  // Asks for a block whose key has this upper half, by which the sample is drawn.
  void AskForHigh(uint64_t high) { Ask({.hi = high, .lo = NumberedKey(high).lo}); }
  void FillWith(size_t members) {
    members_ = members;
    sample_.Full(members);
    sample_.Audit();
  }

  Moment now_ = kSecond;
  size_t members_ = 0;
  ReuseHazards hazards_;
  ReuseSample sample_{&hazards_};
};

TEST_F(ReuseSampleTest, AUseOfAWatchedBlockIsALesson) {
  Ask(1);
  Ask(2);
  EXPECT_EQ(sample_.watched(), 2u);
  EXPECT_EQ(hazards_.new_lessons(), 0u);
  Ask(1, {.uses = 1});
  EXPECT_EQ(hazards_.new_lessons(), 1u);
  EXPECT_EQ(sample_.watched(), 2u);
}

TEST_F(ReuseSampleTest, ConcludesAfterSomeHundredLessons) {
  const uint64_t conclusion = hazards_.conclusions();
  Ask(1);
  for (int i = 0; i < 511; ++i) Ask(1, {.uses = 1});
  EXPECT_EQ(hazards_.conclusions(), conclusion);
  Ask(1, {.uses = 1});
  EXPECT_EQ(hazards_.conclusions(), conclusion + 1);
}

TEST_F(ReuseSampleTest, ATierThatWasNeverFullLosesNothing) {
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 200; ++i) Ask(i);
  }
  EXPECT_NEAR(sample_.score().asked, 400, 50) << "old ones fade";
  EXPECT_NEAR(sample_.score().lru, 200, 20);
  EXPECT_EQ(sample_.score().learnt, sample_.score().lru);
  EXPECT_TRUE(sample_.learnt_leads());
}

TEST_F(ReuseSampleTest, ASmallCacheInOrderOfUseHasTheLastOnes) {
  FillWith(3);
  for (const uint64_t number : {1, 2, 3, 1, 4, 2}) Ask(number);
  EXPECT_NEAR(sample_.score().lru, 1, 0.01) << "1 was there, 2 was not";
}

TEST_F(ReuseSampleTest, AWatchedBlockThatLeftTheSmallCachesIsStillALesson) {
  FillWith(1);
  Ask(1);
  for (uint64_t i = 2; i < 50; ++i) Ask(i);
  Ask(1, {.uses = 1});
  EXPECT_EQ(hazards_.new_lessons(), 1u);
  EXPECT_LT(sample_.score().lru, 0.01);
}

TEST_F(ReuseSampleTest, TheSmallCachesShrinkWithTheTierAtTheNextBlockThatIsAskedFor) {
  for (uint64_t i = 0; i < 100; ++i) Ask(i);
  FillWith(100);
  FillWith(7);
  Ask(100);
  const double found = sample_.score().lru;
  for (uint64_t i = 90; i <= 100; ++i) Ask(i);
  EXPECT_NEAR(sample_.score().lru - found, 0, 0.01) << "each was pushed out by those before";
}

TEST_F(ReuseSampleTest, OnlyAShareOfALargeTiersKeysIsWatched) {
  constexpr size_t kShare = 512;
  members_ = kMaxSampledBlocks * kShare;
  for (uint64_t i = 0; i < 100 * kShare; i += 64) AskForHigh(i);
  EXPECT_EQ(sample_.watched(), 100u);
  EXPECT_NEAR(sample_.score().asked, 100, 10);
}

TEST_F(ReuseSampleTest, TheShareFallsAsTheTierGrowsAndWhatLeavesTheSampleTeachesNothingFalse) {
  for (uint64_t i = 0; i < 1000; ++i) AskForHigh(i);
  FillWith(1000);
  FillWith(kMaxSampledBlocks);
  EXPECT_EQ(sample_.watched(), 1000u);
  members_ = 4 * kMaxSampledBlocks;
  AskForHigh(0);
  EXPECT_EQ(sample_.watched(), 250u);
  EXPECT_EQ(hazards_.new_lessons(), 1u) << "the use of 0";
  AskForHigh(1);
  EXPECT_EQ(sample_.watched(), 250u) << "no longer in the sample";
  members_ = 1000;
  AskForHigh(1);
  EXPECT_EQ(sample_.watched(), 250u) << "a key is in the sample for good or not at all";
}

TEST_F(ReuseSampleTest, SoManyAreWatchedAtMost) {
  FillWith(10);
  for (uint64_t i = 0; i < kMaxWatchedBlocks + 100; ++i) {
    sample_.Asked(NumberedKey(i), {}, now_++, 10);
  }
  EXPECT_EQ(sample_.watched(), kMaxWatchedBlocks);
  EXPECT_EQ(hazards_.new_lessons(), 100u) << "those that were dropped were not used";
  sample_.Audit();
}

TEST_F(ReuseSampleTest, AChangeOfStateIsNoQuestionAndDecidesWhatLeaves) {
  FillWith(2);
  Ask(1);
  Ask(2);
  const double asked = sample_.score().asked;
  sample_.Changed(NumberedKey(2), {.ended = 1});
  sample_.Changed(NumberedKey(9), {.ended = 1});  // The sample does not watch block 9.
  sample_.Audit();
  EXPECT_EQ(sample_.score().asked, asked);
  EXPECT_EQ(sample_.watched(), 2u);
  Ask(3);
  Ask(1);
  EXPECT_NEAR(sample_.score().learnt, 1, 0.01) << "2 has left for 3";
  EXPECT_LT(sample_.score().lru, 0.01) << "1 has left for 3";
}

TEST_F(ReuseSampleTest, TheOrderThatFindsMoreLeads) {
  FillWith(2);
  // In the learnt cache the blocks that will not return leave first, but only they are asked for
  // again.
  uint64_t next = 10;
  int asked = 0;
  for (; sample_.learnt_leads() && asked < 1000; ++asked) {
    Ask(next, {.ended = 1});
    Ask(next + 1, {.priority = 100});
    Ask(next, {.ended = 1});
    next += 2;
  }
  EXPECT_FALSE(sample_.learnt_leads());
  EXPECT_GT(sample_.score().lru, sample_.score().learnt);
  for (asked = 0; !sample_.learnt_leads() && asked < 10'000; ++asked) {
    Ask(1, {.priority = 100});
    Ask(next++, {.ended = 1});
    Ask(next++, {.ended = 1});
  }
  EXPECT_TRUE(sample_.learnt_leads());
}

TEST_F(ReuseSampleTest, HoldsItsInvariantsUnderRandomUse) {
  std::mt19937_64 random(testing::TestSeed());
  for (int step = 0; step < 20'000; ++step) {
    now_ += 1 + random() % kSecond;
    const BlockKey key = NumberedKey(random() % 3000);
    const ReuseState state{.uses = static_cast<uint32_t>(random() % 4),
                           .gap = static_cast<uint32_t>(random() % 6)};
    const uint64_t operation = random() % 20;
    if (operation == 0) {
      sample_.Full(random() % (1 + static_cast<uint64_t>(step) * 2));
    } else if (operation < 3) {
      sample_.Changed(key, state);
    } else {
      sample_.Asked(key, state, now_, static_cast<size_t>(step));
    }
    if (step % 64 == 0) sample_.Audit();
  }
  sample_.Audit();
}

}  // namespace
}  // namespace kvtier
