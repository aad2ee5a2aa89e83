#include "core/tier_stats.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace kvtier {
namespace {

constexpr double kBucketRatio = 1.1893;  // 2^(1/4), rounded up.

TEST(LatencyHistogram, IsZeroWhenEmpty) {
  EXPECT_EQ(LatencyHistogram().count(), 0u);
  EXPECT_EQ(LatencyHistogram().Quantile(0.5), absl::ZeroDuration());
}

TEST(LatencyHistogram, AnswersWithinOneBucketFromAMicrosecondToAMinute) {
  for (absl::Duration d = absl::Microseconds(1); d < absl::Seconds(67); d *= 1.07) {
    LatencyHistogram histogram;
    histogram.Record(d);
    for (const double q : {0.0, 0.5, 1.0}) {
      EXPECT_GE(histogram.Quantile(q), d);
      EXPECT_LE(histogram.Quantile(q), d * kBucketRatio + absl::Nanoseconds(1)) << d;
    }
  }
}

TEST(LatencyHistogram, CountsWhatLiesOutsideItsRangeAtTheEdges) {
  LatencyHistogram histogram;
  histogram.Record(-absl::Seconds(1));
  histogram.Record(absl::ZeroDuration());
  histogram.Record(absl::Hours(1));
  histogram.Record(absl::InfiniteDuration());
  EXPECT_EQ(histogram.count(), 4u);
  EXPECT_LE(histogram.Quantile(0.5), absl::Nanoseconds(1190));
  EXPECT_GT(histogram.Quantile(0.51), absl::Seconds(67));
  EXPECT_LT(histogram.Quantile(1), absl::Seconds(68));
}

TEST(LatencyHistogram, QuantilesOfRandomLatenciesErrByOneBucketAtMost) {
  constexpr uint64_t kSeed = 20240611;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  std::lognormal_distribution<double> microseconds(6, 2);
  LatencyHistogram histogram;
  std::vector<absl::Duration> sorted;
  for (int i = 0; i < 5000; ++i) {
    sorted.push_back(absl::Microseconds(std::clamp(microseconds(random), 1.0, 6e7)));
    histogram.Record(sorted.back());
  }
  std::sort(sorted.begin(), sorted.end());
  for (const double q : {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const size_t rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
    const absl::Duration exact = sorted[rank - 1];
    EXPECT_GE(histogram.Quantile(q) + absl::Nanoseconds(1), exact) << q;
    EXPECT_LE(histogram.Quantile(q), exact * kBucketRatio + absl::Nanoseconds(1)) << q;
  }
}

TEST(LatencyHistogram, TakesAQuantileOutsideZeroToOneAsTheNearest) {
  LatencyHistogram histogram;
  histogram.Record(absl::Milliseconds(1));
  histogram.Record(absl::Seconds(1));
  EXPECT_EQ(histogram.Quantile(-1), histogram.Quantile(0));
  EXPECT_EQ(histogram.Quantile(2), histogram.Quantile(1));
}

TEST(LatencyHistogram, ASumAnswersAsIfOneHadRecordedAll) {
  LatencyHistogram all;
  LatencyHistogram sum;
  LatencyHistogram other;
  for (int i = 1; i <= 100; ++i) {
    all.Record(absl::Microseconds(i * i));
    (i % 3 == 0 ? sum : other).Record(absl::Microseconds(i * i));
  }
  sum.Add(other);
  EXPECT_EQ(sum.count(), all.count());
  for (const double q : {0.0, 0.1, 0.5, 0.9, 1.0}) EXPECT_EQ(sum.Quantile(q), all.Quantile(q));
}

TEST(TierStats, EveryFieldIsSummed) {
  // This fails for a new field, which Add() may have forgotten: there are ten counters and two
  // histograms.
  static_assert(sizeof(TierStats) == 10 * sizeof(uint64_t) + 2 * sizeof(LatencyHistogram));
  TierStats one{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, {}, {}};
  one.read_latency.Record(absl::Seconds(1));
  one.write_latency.Record(absl::Seconds(1));
  TierStats two{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, {}, {}};
  two.Add(one);
  EXPECT_EQ(two.hits, 11u);
  EXPECT_EQ(two.misses, 22u);
  EXPECT_EQ(two.inserts, 33u);
  EXPECT_EQ(two.evictions, 44u);
  EXPECT_EQ(two.declined, 55u);
  EXPECT_EQ(two.bytes_in, 66u);
  EXPECT_EQ(two.bytes_out, 77u);
  EXPECT_EQ(two.verified, 88u);
  EXPECT_EQ(two.verify_failures, 99u);
  EXPECT_EQ(two.io_errors, 110u);
  EXPECT_EQ(two.read_latency.count(), 1u);
  EXPECT_EQ(two.write_latency.count(), 1u);
}

}  // namespace
}  // namespace kvtier
