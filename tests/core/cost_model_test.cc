#include "core/cost_model.h"

#include "gtest/gtest.h"

namespace kvtier {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr double kGigabyte = 1e9;

double Microseconds(absl::Duration d) { return absl::ToDoubleMicroseconds(d); }

TEST(TransferEstimate, PredictsLatencyPlusBytesOverBandwidth) {
  const TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  EXPECT_EQ(estimate.Predict(0), absl::Microseconds(100));
  EXPECT_NEAR(Microseconds(estimate.Predict(1'000'000)), 1100, 0.01);
}

TEST(TransferEstimate, SmallTransfersTeachLatencyByAnEighth) {
  TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  estimate.Observe(4096, absl::Microseconds(180));
  EXPECT_NEAR(Microseconds(estimate.Predict(0)), 110, 0.01);
  EXPECT_EQ(estimate.bytes_per_second(), kGigabyte);
}

TEST(TransferEstimate, LargeTransfersTeachBandwidthByAnEighth) {
  TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  estimate.Observe(1'000'000, absl::Microseconds(600));  // 1 MB in 500 us: 2 GB/s.
  EXPECT_NEAR(estimate.bytes_per_second(), 1.125 * kGigabyte, 1e3);
  EXPECT_EQ(estimate.Predict(0), absl::Microseconds(100));
}

TEST(TransferEstimate, SixtyFourKibibytesIsWhereLargeBegins) {
  TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  estimate.Observe((64 << 10) - 1, absl::Milliseconds(1));
  EXPECT_EQ(estimate.bytes_per_second(), kGigabyte);
  const absl::Duration latency = estimate.Predict(0);
  EXPECT_GT(latency, absl::Microseconds(100));
  estimate.Observe(64 << 10, absl::Milliseconds(1));
  EXPECT_LT(estimate.bytes_per_second(), kGigabyte);
  EXPECT_EQ(estimate.Predict(0), latency);
}

TEST(TransferEstimate, ConvergesOnWhatTheSourceDoes) {
  TransferEstimate estimate(absl::Milliseconds(10), 100 * kGigabyte);
  for (int i = 0; i < 100; ++i) {
    estimate.Observe(4096, absl::Microseconds(200));
    estimate.Observe(kMiB, absl::Microseconds(200) + absl::Microseconds(500));
  }
  EXPECT_NEAR(Microseconds(estimate.Predict(4 * kMiB)), 200 + 4 * 500, 10);
}

// The prior latency is above what whole transfers take, and no small transfer corrects it.
TEST(TransferEstimate, LargeTransfersAloneCorrectALatencyBelievedTooHigh) {
  TransferEstimate estimate(absl::Milliseconds(50), kGigabyte);
  for (int i = 0; i < 100; ++i) estimate.Observe(kMiB, absl::Milliseconds(1));
  EXPECT_LT(estimate.Predict(kMiB), absl::Milliseconds(2));
  EXPECT_GT(estimate.Predict(kMiB), absl::Microseconds(500));
}

TEST(TransferEstimate, OneStallDoesNotConvictASource) {
  TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  const absl::Duration before = estimate.Predict(kMiB);
  estimate.Observe(kMiB, absl::Seconds(30));
  EXPECT_LT(estimate.Predict(kMiB), 1.2 * before);
}

TEST(TransferEstimate, IgnoresTransfersThatTookNoTime) {
  TransferEstimate estimate(absl::Microseconds(100), kGigabyte);
  estimate.Observe(kMiB, absl::ZeroDuration());
  estimate.Observe(4096, -absl::Seconds(1));
  EXPECT_EQ(estimate.bytes_per_second(), kGigabyte);
  EXPECT_EQ(estimate.Predict(0), absl::Microseconds(100));
}

TEST(WorthFetching, ComparesThePredictionWithTheBudget) {
  const TransferEstimate source(absl::Microseconds(100), kGigabyte);
  EXPECT_TRUE(WorthFetching(source, 1'000'000, absl::Microseconds(1101)));
  EXPECT_FALSE(WorthFetching(source, 1'000'000, absl::Microseconds(1099)));
  EXPECT_FALSE(WorthFetching(source, 1, absl::ZeroDuration()));
  EXPECT_TRUE(WorthFetching(source, kMiB, absl::InfiniteDuration()));
}

}  // namespace
}  // namespace kvtier
