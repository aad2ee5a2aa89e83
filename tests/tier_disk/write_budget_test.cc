#include "tier_disk/admission/write_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch();
// 100 bytes a second, 1000 in the bucket.
constexpr WriteBudgetOptions kOptions = {
    .drive_writes_per_day = 1, .drive_bytes = uint64_t{86400} * 100, .burst = absl::Seconds(10)};

TEST(WriteBudgetTest, WithoutALimitEverythingPassesAndIsCounted) {
  WriteBudget budget({});
  EXPECT_TRUE(budget.unlimited());
  EXPECT_TRUE(budget.Take(uint64_t{1} << 60, kStart));
  EXPECT_EQ(budget.Available(kStart), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(budget.Utilisation(kStart), 0);
  EXPECT_EQ(budget.written_bytes(), uint64_t{1} << 60);
}

TEST(WriteBudgetTest, StartsWithAFullBucket) {
  WriteBudget budget(kOptions);
  EXPECT_EQ(budget.Available(kStart), 1000);
  EXPECT_TRUE(budget.Take(1000, kStart));
  EXPECT_FALSE(budget.Take(1, kStart));
  EXPECT_EQ(budget.written_bytes(), 1000);
}

TEST(WriteBudgetTest, FillsAtDriveWritesPerDayTimesTheDrive) {
  WriteBudget budget(kOptions);
  EXPECT_TRUE(budget.Take(1000, kStart));
  EXPECT_EQ(budget.Available(kStart + absl::Seconds(3)), 300);
  EXPECT_FALSE(budget.Take(301, kStart + absl::Seconds(3)));
  EXPECT_TRUE(budget.Take(300, kStart + absl::Seconds(3)));
}

TEST(WriteBudgetTest, HoldsNoMoreThanTheBurst) {
  WriteBudget budget(kOptions);
  EXPECT_TRUE(budget.Take(400, kStart));
  EXPECT_EQ(budget.Available(kStart + absl::Hours(5)), 1000);
}

TEST(WriteBudgetTest, AChargeBeyondTheBucketIsPaidOffFirst) {
  WriteBudget budget(kOptions);
  budget.Charge(1500, kStart);
  EXPECT_EQ(budget.Available(kStart), 0);
  EXPECT_EQ(budget.Utilisation(kStart), 1);
  EXPECT_FALSE(budget.Take(1, kStart + absl::Seconds(5)));
  EXPECT_TRUE(budget.Take(100, kStart + absl::Seconds(6)));
}

TEST(WriteBudgetTest, WhatIsLargerThanTheBucketWaitsUntilItIsFull) {
  WriteBudget budget(kOptions);
  EXPECT_TRUE(budget.Take(2500, kStart));
  EXPECT_FALSE(budget.Take(2500, kStart + absl::Seconds(24)));
  EXPECT_TRUE(budget.Take(2500, kStart + absl::Seconds(25)));
}

TEST(WriteBudgetTest, UtilisationIsTheShareOfTheBucketThatIsSpent) {
  WriteBudget budget(kOptions);
  EXPECT_DOUBLE_EQ(budget.Utilisation(kStart), 0);
  EXPECT_TRUE(budget.Take(750, kStart));
  EXPECT_DOUBLE_EQ(budget.Utilisation(kStart), 0.75);
}

TEST(WriteBudgetTest, AClockThatGoesBackAddsNothing) {
  WriteBudget budget(kOptions);
  EXPECT_TRUE(budget.Take(1000, kStart));
  EXPECT_EQ(budget.Available(kStart - absl::Hours(1)), 0);
  EXPECT_EQ(budget.Available(kStart + absl::Seconds(1)), 100);
}

TEST(WriteBudgetTest, NeverGivesMoreThanBurstPlusRateTimesTime) {
  std::mt19937_64 random(testing::TestSeed());
  WriteBudget budget(kOptions);
  absl::Time now = kStart;
  uint64_t taken = 0;
  for (int i = 0; i < 5000; ++i) {
    now += absl::Milliseconds(random() % 3000);
    const uint64_t bytes = random() % 1000;
    const uint64_t available = budget.Available(now);
    const bool passed = budget.Take(bytes, now);
    // A fraction of a byte may be there that Available() does not show.
    EXPECT_TRUE(passed ? bytes <= available + 1 : bytes > available);
    if (passed) taken += bytes;
    EXPECT_LE(static_cast<double>(taken), 1000 + 100 * absl::ToDoubleSeconds(now - kStart) + 1);
  }
  EXPECT_EQ(budget.written_bytes(), taken);
}

TEST(WriteBudgetTest, ErrorsNameTheFieldAndTheValue) {
  const auto message = [](const WriteBudgetOptions& options) {
    EXPECT_EQ(options.Validate().code(), absl::StatusCode::kInvalidArgument);
    return std::string(options.Validate().message());
  };
  EXPECT_THAT(message({.drive_writes_per_day = -1, .drive_bytes = 1}),
              HasSubstr("drive_writes_per_day: -1"));
  EXPECT_THAT(message({.drive_writes_per_day = 101, .drive_bytes = 1}),
              HasSubstr("drive_writes_per_day: 101"));
  EXPECT_THAT(message({.drive_writes_per_day = std::numeric_limits<double>::quiet_NaN()}),
              HasSubstr("drive_writes_per_day: nan"));
  EXPECT_THAT(message({.drive_writes_per_day = 1}), HasSubstr("drive_bytes: 0"));
  EXPECT_THAT(message({.burst = absl::ZeroDuration()}), HasSubstr("burst: 0"));
  EXPECT_THAT(message({.burst = absl::Hours(25)}), HasSubstr("burst: 25h"));
  EXPECT_TRUE(WriteBudgetOptions{}.Validate().ok());
  EXPECT_TRUE(kOptions.Validate().ok());
}

}  // namespace
}  // namespace kvtier
