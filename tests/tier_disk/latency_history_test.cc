#include "tier_disk/io/latency_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

void AddMany(LatencyHistory* history, uint32_t ios, uint64_t bytes, absl::Duration latency) {
  for (uint32_t i = 0; i < ios; ++i) history->Add(bytes, latency);
}

TEST(LatencyHistoryTest, IsSilentBeforeItHasSeenEnough) {
  LatencyHistory history;
  AddMany(&history, kHistoryMinIos - 1, 4096, absl::Microseconds(80));
  EXPECT_FALSE(history.Median(4096).has_value());
  history.Add(4096, absl::Microseconds(80));
  EXPECT_TRUE(history.Median(4096).has_value());
}

TEST(LatencyHistoryTest, SizesAreKeptApartByFours) {
  LatencyHistory history;
  AddMany(&history, kHistoryMinIos, 4097, absl::Microseconds(80));
  EXPECT_TRUE(history.Median(16384).has_value());
  EXPECT_FALSE(history.Median(4096).has_value());
  EXPECT_FALSE(history.Median(16385).has_value());
}

TEST(LatencyHistoryTest, EverySizeHasAClass) {
  LatencyHistory history;
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{1} << 24, uint64_t{1} << 40}) {
    AddMany(&history, kHistoryMinIos, bytes, absl::Milliseconds(1));
    EXPECT_TRUE(history.Median(bytes).has_value()) << bytes;
  }
}

TEST(LatencyHistoryTest, TheMedianIsAtMostAQuarterOctaveAboveTheExactOne) {
  std::mt19937_64 random(testing::TestSeed());
  std::lognormal_distribution<double> microseconds(7, 2);
  LatencyHistory history;
  std::vector<double> exact;
  for (int i = 0; i < 2001; ++i) {
    exact.push_back(std::clamp(microseconds(random), 1.0, 6e7));
    history.Add(4096, absl::Microseconds(exact.back()));
  }
  std::nth_element(exact.begin(), exact.begin() + 1000, exact.end());
  const double median = absl::ToDoubleMicroseconds(*history.Median(4096));
  EXPECT_GE(median * 1.0001, exact[1000]);
  EXPECT_LE(median, exact[1000] * 1.19);
}

TEST(LatencyHistoryTest, WhatLiesOutsideTheRangeCountsAtItsEdges) {
  LatencyHistory history;
  AddMany(&history, kHistoryMinIos, 4096, absl::ZeroDuration());
  EXPECT_LT(*history.Median(4096), absl::Microseconds(2));
  AddMany(&history, 2 * kHistoryMinIos, 4096, absl::Hours(1));
  EXPECT_GT(*history.Median(4096), absl::Seconds(60));
}

TEST(LatencyHistoryTest, ANewPaceBecomesTheUsualOneInTime) {
  LatencyHistory history;
  AddMany(&history, 10 * kHistoryMaxIos, 4096, absl::Microseconds(80));
  AddMany(&history, kHistoryMaxIos / 4, 4096, absl::Milliseconds(80));
  EXPECT_LT(*history.Median(4096), absl::Microseconds(100));
  AddMany(&history, kHistoryMaxIos, 4096, absl::Milliseconds(80));
  EXPECT_GT(*history.Median(4096), absl::Milliseconds(79));
}

}  // namespace
}  // namespace kvtier
