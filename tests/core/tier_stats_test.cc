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

}  // namespace
}  // namespace kvtier
