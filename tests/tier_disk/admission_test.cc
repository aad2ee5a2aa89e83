#include "tier_disk/admission/admission.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "tests/testing/numbered_key.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

using ::testing::HasSubstr;
using enum WriteDecision;

const absl::Time kStart = absl::UnixEpoch();
constexpr uint64_t kRecord = 4096;
constexpr uint64_t kDisk = 1000 * kRecord;
// This budget allows one record a second, with ten in the bucket.
constexpr WriteBudgetOptions kTight = {
    .drive_writes_per_day = 1, .drive_bytes = 86400 * kRecord, .burst = absl::Seconds(10)};

WriteCandidate Candidate(uint64_t number) {
  return {.key = NumberedKey(number), .record_bytes = kRecord};
}

AdmissionOptions Options(WritePolicy policy) {
  return {.policy = policy, .disk_bytes = kDisk, .seen_bytes = 1 << 16};
}

TEST(AdmissionTest, AllWritesEveryBlockUntilTheBudgetIsSpent) {
  WriteBudget budget(kTight);
  Admission admission(Options(WritePolicy::kAll), &budget);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(admission.Decide(Candidate(i), kStart), kWrite);
  EXPECT_EQ(admission.Decide(Candidate(10), kStart), kOverBudget);
  EXPECT_EQ(admission.Decide(Candidate(11), kStart + absl::Seconds(1)), kWrite);
  EXPECT_EQ(budget.written_bytes(), 11 * kRecord);
}

TEST(AdmissionTest, SecondTouchRefusesABlockOfferedForTheFirstTime) {
  WriteBudget budget({});
  Admission admission(Options(WritePolicy::kSecondTouch), &budget);
  EXPECT_EQ(admission.Decide(Candidate(1), kStart), kNotWorthIt);
  EXPECT_EQ(budget.written_bytes(), 0);
}

TEST(AdmissionTest, SecondTouchWritesABlockThatCameBack) {
  WriteBudget budget({});
  Admission admission(Options(WritePolicy::kSecondTouch), &budget);
  EXPECT_EQ(admission.Decide(Candidate(1), kStart), kNotWorthIt);
  EXPECT_EQ(admission.Decide(Candidate(1), kStart), kWrite);
}

TEST(AdmissionTest, SecondTouchWritesABlockHitInHostMemory) {
  WriteBudget budget({});
  Admission admission(Options(WritePolicy::kSecondTouch), &budget);
  WriteCandidate hit = Candidate(1);
  hit.host_hits = 1;
  EXPECT_EQ(admission.Decide(hit, kStart), kWrite);
}

// A put takes room only if its block may be written, so a block that may not be written must be
// refused at the put.
TEST(AdmissionTest, WhatMayNotBeWrittenIsRefused) {
  std::mt19937_64 random(testing::TestSeed());
  for (const WritePolicy policy :
       {WritePolicy::kAll, WritePolicy::kSecondTouch, WritePolicy::kPredictedReuse}) {
    for (const WriteBudgetOptions& options : {WriteBudgetOptions(), kTight}) {
      WriteBudget budget(options);
      Admission admission(Options(policy), &budget);
      size_t may = 0;
      for (int64_t i = 0; i < 2000; ++i) {
        WriteCandidate candidate = Candidate(random() % 500);
        candidate.host_hits = random() % 4 == 0 ? 1 : 0;
        candidate.disk_has_child = random() % 10 == 0;
        const absl::Time now = kStart + absl::Milliseconds(300 * i);
        const bool may_write = admission.MayWrite(candidate, now);
        may += may_write ? 1 : 0;
        const WriteDecision decision = admission.Decide(candidate, now);
        ASSERT_TRUE(may_write || decision != kWrite) << i;
      }
      EXPECT_GT(may, 0);
    }
  }
}

TEST(AdmissionTest, ABlockRefusedByTheBudgetIsRememberedToo) {
  WriteBudget budget(kTight);
  Admission admission(Options(WritePolicy::kSecondTouch), &budget);
  budget.Charge(10 * kRecord, kStart);
  WriteCandidate hit = Candidate(1);
  hit.host_hits = 1;
  EXPECT_EQ(admission.Decide(hit, kStart), kOverBudget);
  EXPECT_EQ(admission.Decide(Candidate(1), kStart + absl::Seconds(5)), kWrite);
}

TEST(AdmissionTest, AParentOfABlockOnTheDiskIsWrittenOnCredit) {
  for (const WritePolicy policy :
       {WritePolicy::kAll, WritePolicy::kSecondTouch, WritePolicy::kPredictedReuse}) {
    WriteBudget budget(kTight);
    Admission admission(Options(policy), &budget);
    budget.Charge(10 * kRecord, kStart);
    WriteCandidate parent = Candidate(1);
    parent.disk_has_child = true;
    EXPECT_EQ(admission.Decide(parent, kStart), kWrite);
    EXPECT_EQ(budget.written_bytes(), 11 * kRecord);
    EXPECT_EQ(budget.Available(kStart + absl::Seconds(1)), 0);  // The second pays the debt.
  }
}

TEST(AdmissionTest, PredictedReuseWithoutALimitWritesEverything) {
  WriteBudget budget({});
  Admission admission(Options(WritePolicy::kPredictedReuse), &budget);
  for (uint64_t i = 0; i < 10000; ++i) {
    EXPECT_EQ(admission.Decide(Candidate(i), kStart), kWrite);
  }
}

TEST(AdmissionTest, EachDecisionIsCounted) {
  WriteBudget budget(kTight);
  Admission admission(Options(WritePolicy::kSecondTouch), &budget);
  for (uint64_t i = 0; i < 12; ++i) admission.Decide(Candidate(i), kStart);
  for (uint64_t i = 0; i < 12; ++i) admission.Decide(Candidate(i), kStart);
  EXPECT_EQ(admission.tally().not_worth_it, 12);
  EXPECT_EQ(admission.tally().write, 10);
  EXPECT_EQ(admission.tally().over_budget, 2);
}

// Records written for new blocks, of which none returns, and for blocks with a hit, which always
// return. Each second brings four new blocks and one with a hit; the budget is one record.
struct Spent {
  int on_new = 0;
  int on_hit = 0;
};
Spent SpendOnMixedTraffic(WritePolicy policy, uint64_t seed) {
  WriteBudget budget(kTight);
  Admission admission(Options(policy), &budget);
  std::mt19937_64 random(seed);
  Spent spent;
  for (int second = 0; second < 20000; ++second) {
    const absl::Time now = kStart + absl::Seconds(second);
    const int hit_at = static_cast<int>(random() % 5);
    for (int i = 0; i < 5; ++i) {
      WriteCandidate candidate = Candidate(random());
      candidate.host_hits = i == hit_at ? 1 : 0;
      const bool written = admission.Decide(candidate, now) == kWrite;
      if (i == hit_at) admission.Entered(candidate.key);
      if (second < 10000) continue;  // The first part is the learning phase.
      (i == hit_at ? spent.on_hit : spent.on_new) += written ? 1 : 0;
    }
  }
  return spent;
}

TEST(AdmissionTest, PredictedReuseSpendsAScarceBudgetOnWhatReturns) {
  const uint64_t seed = testing::TestSeed();
  const Spent all = SpendOnMixedTraffic(WritePolicy::kAll, seed);
  const Spent predicted = SpendOnMixedTraffic(WritePolicy::kPredictedReuse, seed);
  EXPECT_LT(all.on_hit, 3500);                           // One block in five is a hit.
  EXPECT_GT(predicted.on_hit, 8000);                     // The budget pays for 10000.
  EXPECT_GT(predicted.on_hit + predicted.on_new, 9900);  // The budget is spent to the last byte.
}

TEST(AdmissionTest, TheSameCallsGetTheSameDecisions) {
  const uint64_t seed = testing::TestSeed();
  const Spent first = SpendOnMixedTraffic(WritePolicy::kPredictedReuse, seed);
  const Spent second = SpendOnMixedTraffic(WritePolicy::kPredictedReuse, seed);
  EXPECT_EQ(first.on_hit, second.on_hit);
  EXPECT_EQ(first.on_new, second.on_new);
}

TEST(AdmissionTest, SecondTouchAgreesWithASetOfKeysWhileItsMemoryLasts) {
  std::mt19937_64 random(testing::TestSeed());
  WriteBudget budget({});
  Admission admission(
      {.policy = WritePolicy::kSecondTouch, .disk_bytes = kDisk, .seen_bytes = uint64_t{4} << 20},
      &budget);
  std::set<BlockKey> seen;
  for (int i = 0; i < 2000; ++i) {
    WriteCandidate candidate = Candidate(random() % 500);
    candidate.host_hits = random() % 4 == 0 ? 1 : 0;
    candidate.disk_has_child = random() % 8 == 0;
    const bool expected =
        candidate.host_hits > 0 || candidate.disk_has_child || seen.contains(candidate.key);
    EXPECT_EQ(admission.Decide(candidate, kStart), expected ? kWrite : kNotWorthIt);
    seen.insert(candidate.key);
  }
}

TEST(AdmissionTest, ErrorsNameTheFieldAndTheValue) {
  AdmissionOptions options = Options(WritePolicy::kAll);
  EXPECT_TRUE(options.Validate().ok());
  options.disk_bytes = 0;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("disk_bytes: 0"));
  options = Options(WritePolicy::kAll);
  options.seen_bytes = 1023;
  EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("seen_bytes: 1023"));
}

}  // namespace
}  // namespace kvtier
