#include <gtest/gtest.h>

#include <vector>

#include "tier_gpu/plan/calibration_samples.h"

namespace kvtier {
namespace {

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr CalibrationCell kCell = {
    .direction = kIn, .path = CopyPath::kBatch, .size = 8, .count = 3};
constexpr uint64_t kCellBytes = 64 << 10;
constexpr size_t kCellSegments = 64;
constexpr CopyJob kCellJob = {
    .direction = kIn, .segment_bytes = kCellBytes, .segments = kCellSegments};

class CalibrationSamplesTest : public ::testing::Test {
 protected:
  void Add(size_t times, uint64_t bytes, size_t segments, absl::Duration took) {
    const std::vector<CopySegment> batch(segments, {.bytes = bytes});
    for (size_t i = 0; i < times; ++i) samples_.Add(kIn, CopyPath::kBatch, batch, took);
  }
  bool Measured() const { return table_.measured(kCell) > absl::ZeroDuration(); }

  CalibrationTable table_{LinkModel::Pcie5()};
  CalibrationSamples samples_{&table_};
};

TEST_F(CalibrationSamplesTest, EnoughBatchesOfACellMeasureIt) {
  const absl::Duration took = 2 * table_.Time(kCellJob, CopyPath::kBatch);
  Add(kMinCalibrationSamples - 1, kCellBytes, kCellSegments, took);
  EXPECT_FALSE(Measured());
  Add(1, kCellBytes, kCellSegments, took);
  EXPECT_NEAR(absl::FDivDuration(table_.measured(kCell), took), 1, 1e-6);
  EXPECT_EQ(samples_.calibrated(), 1U);
}

TEST_F(CalibrationSamplesTest, ABatchBesideACellCountsInProportion) {
  const CopyJob job = {.direction = kIn, .segment_bytes = 80 << 10, .segments = 50};
  const absl::Duration predicted = table_.Time(kCellJob, CopyPath::kBatch);
  Add(kMinCalibrationSamples, job.segment_bytes, job.segments,
      2 * table_.Time(job, CopyPath::kBatch));
  ASSERT_TRUE(Measured());
  EXPECT_NEAR(absl::FDivDuration(table_.measured(kCell), predicted), 2, 1e-6);
}

TEST_F(CalibrationSamplesTest, WhatSaysNothingOfACellIsLeftOut) {
  const absl::Duration took = absl::Milliseconds(1);
  Add(kMinCalibrationSamples, kCellBytes, 0, took);
  Add(kMinCalibrationSamples, kCellBytes, kCellSegments, absl::ZeroDuration());
  Add(kMinCalibrationSamples, 500, kCellSegments, took);
  Add(kMinCalibrationSamples, 9 << 20, 1, took);
  const std::vector<CopySegment> uneven = {{.bytes = kCellBytes}, {.bytes = kCellBytes + 1}};
  for (size_t i = 0; i < kMinCalibrationSamples; ++i) {
    samples_.Add(kIn, CopyPath::kBatch, uneven, took);
  }
  EXPECT_FALSE(Measured());
  EXPECT_EQ(samples_.calibrated(), 0U);
}

TEST_F(CalibrationSamplesTest, ALinkWithoutTimesIsNotCalibratedByProportion) {
  CalibrationTable none(LinkModel::Instant());
  CalibrationSamples samples(&none);
  const std::vector<CopySegment> batch(kCellSegments, {.bytes = kCellBytes});
  for (size_t i = 0; i < kMinCalibrationSamples; ++i) {
    samples.Add(kIn, CopyPath::kBatch, batch, absl::Milliseconds(1));
  }
  EXPECT_EQ(none.measured(kCell), absl::ZeroDuration());
  EXPECT_EQ(samples.calibrated(), 0U);
}

}  // namespace
}  // namespace kvtier
