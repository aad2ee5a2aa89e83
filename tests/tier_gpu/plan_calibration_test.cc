#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/test_seed.h"
#include "tier_gpu/plan/calibration.h"
#include "tier_gpu/plan/calibration_text.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr CalibrationCell kCell = {
    .direction = kOut, .path = CopyPath::kStaged, .size = 3, .count = 4};
constexpr CopyJob kCellJob = {.direction = kOut, .segment_bytes = 8 << 10, .segments = 256};
const CalibratedDevice kDevice = {.gpu = "GPU-5d8c", .driver = "580.159.04"};

std::vector<absl::Duration> Samples(absl::Duration median) {
  std::vector<absl::Duration> samples(kMinCalibrationSamples, median);
  for (size_t i = 0; i < samples.size() / 2; ++i) samples[i] = median / 2;
  samples.back() = 100 * median;
  return samples;
}

TEST(CalibrationTest, BeginsAsTheLinkPredicts) {
  const LinkModel link = LinkModel::Pcie5();
  const CalibrationTable table(link);
  EXPECT_EQ(table.at(kCell).time, PredictJob(link, kCellJob, CopyPath::kStaged));
  EXPECT_FALSE(table.at(kCell).measured);
  EXPECT_EQ(table.Time(kCellJob, CopyPath::kStaged), table.at(kCell).time);
}

TEST(CalibrationTest, AJobIsPredictedInThePlannersBatches) {
  const LinkModel link = LinkModel::Pcie5();
  const CopyJob job = {.direction = kOut, .segment_bytes = 3 << 20, .segments = 2};
  const absl::Duration one = link.Predict({.direction = kOut, .segments = 1, .bytes = 3 << 20});
  EXPECT_EQ(PredictJob(link, job, CopyPath::kBatch), 2 * one);
  const CopyJob small = {.direction = kOut, .segment_bytes = 1, .segments = 1025};
  EXPECT_EQ(PredictJob(link, small, CopyPath::kBatch),
            link.Predict({.direction = kOut, .segments = 1024, .bytes = 1024}) +
                link.Predict({.direction = kOut, .segments = 1, .bytes = 1}));
}

TEST(CalibrationTest, TheMedianReplacesAPrediction) {
  CalibrationTable table(LinkModel::Pcie5());
  const absl::Duration near = table.at(kCell).time * 1.01;
  EXPECT_EQ(table.Calibrate(kCell, Samples(near)), absl::OkStatus());
  EXPECT_EQ(table.at(kCell), (CalibratedTime{.time = near, .measured = true}));
}

TEST(CalibrationTest, AMeasuredTimeStaysUntilItIsLeftByTheHysteresis) {
  CalibrationTable table(LinkModel::Pcie5());
  const absl::Duration first = absl::Microseconds(100);
  for (const double times : {1.0, 1.14, 0.88, 1.149}) {
    ASSERT_EQ(table.Calibrate(kCell, Samples(first * times)), absl::OkStatus());
    EXPECT_EQ(table.at(kCell).time, first);
  }
  ASSERT_EQ(table.Calibrate(kCell, Samples(first * 1.16)), absl::OkStatus());
  EXPECT_EQ(table.at(kCell).time, first * 1.16);
  ASSERT_EQ(table.Calibrate(kCell, Samples(first * 0.99)), absl::OkStatus());
  EXPECT_EQ(table.at(kCell).time, first * 0.99);
}

// Five samples a time made a machine flap between thresholds 16 times apart.
TEST(CalibrationTest, NoiseDoesNotMakeTheChoiceFlap) {
  std::mt19937_64 random(testing::TestSeed());
  std::uniform_real_distribution<double> noise(0.94, 1.06);
  CalibrationTable table(LinkModel::Pcie5());
  int changes = 0;
  CopyPath chosen = CopyPath::kBatch;
  for (int round = 0; round < 200; ++round) {
    for (const CopyPath path : {CopyPath::kBatch, CopyPath::kStaged, CopyPath::kDirect}) {
      CalibrationCell cell = kCell;
      cell.path = path;
      ASSERT_EQ(table.Calibrate(cell, Samples(absl::Microseconds(100) * noise(random))),
                absl::OkStatus());
    }
    const CopyPath now = table.Choose(kCellJob, LaneOwner::kWorker);
    if (round > 0 && now != chosen) ++changes;
    chosen = now;
  }
  EXPECT_EQ(changes, 0);
}

TEST(CalibrationTest, WhatIsNoMeasurementIsRefusedAndChangesNothing) {
  CalibrationTable table(LinkModel::Pcie5());
  const CalibrationTable before = table;
  const auto expect = [&](const CalibrationCell& cell, std::vector<absl::Duration> samples,
                          const std::string& message) {
    const absl::Status status = table.Calibrate(cell, samples);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  std::vector<absl::Duration> samples = Samples(absl::Microseconds(1));
  expect(kCell, {samples.begin(), samples.end() - 1}, "24 samples, fewer than 25");
  samples[3] = absl::ZeroDuration();
  expect(kCell, samples, "a sample of 0");
  samples[3] = absl::InfiniteDuration();
  expect(kCell, samples, "a sample of inf");
  samples[3] = absl::Microseconds(1);
  CalibrationCell cell = kCell;
  cell.size = kCalibrationSizes.size();
  expect(cell, samples, "size 15");
  cell = kCell;
  cell.count = kCalibrationCounts.size();
  expect(cell, samples, "count 7");
  cell = kCell;
  cell.path = static_cast<CopyPath>(3);
  expect(cell, samples, "path 3");
  EXPECT_EQ(table, before);
}

TEST(CalibrationTest, BetweenTwoPointsTimeIsAStraightLine) {
  CalibrationTable table(LinkModel::Instant());
  const auto set = [&table](size_t size, size_t count, int us) {
    table.Set({.direction = kIn, .path = CopyPath::kBatch, .size = size, .count = count},
              {.time = absl::Microseconds(us), .measured = true});
  };
  set(0, 0, 10);
  set(0, 1, 40);
  set(1, 0, 20);
  set(1, 1, 80);
  const auto at = [&table](uint64_t bytes, size_t segments) {
    const CopyJob job = {.direction = kIn, .segment_bytes = bytes, .segments = segments};
    return table.Time(job, CopyPath::kBatch);
  };
  EXPECT_EQ(at(1024, 2), absl::Microseconds(20));
  EXPECT_EQ(at(1536, 1), absl::Microseconds(15));
  EXPECT_EQ(at(1536, 4), absl::Microseconds(60));
  EXPECT_EQ(at(1, 1), absl::Microseconds(10)) << "no less than the first";
  set(14, 6, 1000);
  EXPECT_EQ(at(8 << 20, 12'288), absl::Microseconds(6000)) << "past the last in proportion";
}

TEST(CalibrationTest, AnAgentsLaneRunsNoKernels) {
  const CalibrationTable table(LinkModel::Coherent());
  EXPECT_NE(table.Choose(kCellJob, LaneOwner::kWorker), CopyPath::kBatch);
  EXPECT_EQ(table.Choose(kCellJob, LaneOwner::kAgent), CopyPath::kBatch);
}

TEST(CalibrationTest, AKernelThatIsHardlyFasterIsNotWorthItsProcessors) {
  CalibrationTable table(LinkModel::Instant());
  const auto choose = [&table](double batch, double staged, double direct) {
    const std::array<double, kCopyPaths> times = {batch, staged, direct};
    for (size_t path = 0; path < times.size(); ++path) {
      CalibrationCell cell = kCell;
      cell.path = static_cast<CopyPath>(path);
      table.Set(cell, {.time = absl::Microseconds(1) * times[path], .measured = true});
    }
    return table.Choose(kCellJob, LaneOwner::kWorker);
  };
  EXPECT_EQ(choose(100, 97, 97), CopyPath::kBatch);
  EXPECT_EQ(choose(100, 95, 97), CopyPath::kStaged);
  EXPECT_EQ(choose(100, 95, 94), CopyPath::kDirect);
}

TEST(CalibrationTextTest, WhatIsWrittenIsRead) {
  CalibrationTable table(LinkModel::Pcie4());
  ASSERT_EQ(table.Calibrate(kCell, Samples(absl::Nanoseconds(4711))), absl::OkStatus());
  const std::string text = FormatCalibration({.device = kDevice, .table = table});
  EXPECT_THAT(text, StartsWith("kvtier-calibration 1\ngpu GPU-5d8c driver 580.159.04\n"
                               "h2d 1024 1 batch 2341 predicted\n"));
  EXPECT_THAT(text, HasSubstr("\nd2h 8192 256 staged 4711 measured\n"));
  const auto read = ParseCalibration(text, kDevice);
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(FormatCalibration({.device = kDevice, .table = *read}), text);
  EXPECT_EQ(read->at(kCell), table.at(kCell));
}

TEST(CalibrationTextTest, AnotherDeviceOrDriverIsToBeMeasuredAnew) {
  const std::string text =
      FormatCalibration({.device = kDevice, .table = CalibrationTable(LinkModel::Pcie5())});
  for (const CalibratedDevice& other :
       {CalibratedDevice{"GPU-77", kDevice.driver}, CalibratedDevice{kDevice.gpu, "590.1"}}) {
    const absl::Status status = ParseCalibration(text, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("not of gpu ", other.gpu, " driver ", other.driver)));
  }
}

TEST(CalibrationTextTest, WhatIsWrongIsNamedWithItsLine) {
  const std::string text =
      FormatCalibration({.device = kDevice, .table = CalibrationTable(LinkModel::Pcie5())});
  const auto expect = [&text](absl::string_view from, absl::string_view to,
                              const std::string& message) {
    const std::string wrong = absl::StrReplaceAll(text, {{from, to}});
    ASSERT_NE(wrong, text);
    const absl::Status status = ParseCalibration(wrong, kDevice).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  const std::string cell = "h2d 1024 1 batch 2442 predicted";
  expect("kvtier-calibration 1", "kvtier-calibration 2", "line 1: not 'kvtier-calibration 1'");
  expect("gpu GPU-5d8c", "gpu", "line 2: not a gpu and a driver: 'gpu driver 580.159.04'");
  expect(cell, "x2d 1024 1 batch 2442 predicted", "line 3: no direction: 'x2d'");
  expect(cell, "h2d 1025 1 batch 2442 predicted", "line 3: no size of the table: '1025'");
  expect(cell, "h2d 1024 2 batch 2442 predicted", "line 3: no count of the table: '2'");
  expect(cell, "h2d 1024 1 loop 2442 predicted", "line 3: no path: 'loop'");
  expect(cell, "h2d 1024 1 batch 2442 guessed",
         "line 3: neither measured nor predicted: 'guessed'");
  expect(cell, "h2d 1024 1 batch fast predicted", "line 3: no time of up to an hour: 'fast'");
  expect(cell, "h2d 1024 1 batch -1 predicted", "line 3: no time of up to an hour: '-1'");
  expect(cell, "h2d 1024 1 batch 0 measured", "line 3: no time of up to an hour: '0'");
  expect(cell, "h2d 1024 1 batch 3600000000001 predicted", "'3600000000001'");
  expect(cell, "h2d 1024 1 batch 2442", "line 3: not the six words of a cell");
  expect(cell, cell + "\n" + cell, "line 4: there twice: 'h2d 1024 1 batch 2442 predicted'");
  expect(cell + "\n", "", "line 632: a cell is missing: 'h2d 1024 1 batch'");
}

TEST(CalibrationTextTest, EveryShorterTextIsRefused) {
  const std::string text =
      FormatCalibration({.device = kDevice, .table = CalibrationTable(LinkModel::Pcie5())});
  for (size_t bytes = 0; bytes + 1 < text.size(); bytes += bytes < 200 ? 1 : 97) {
    EXPECT_FALSE(ParseCalibration(text.substr(0, bytes), kDevice).ok()) << bytes;
  }
  EXPECT_TRUE(ParseCalibration(text.substr(0, text.size() - 1), kDevice).ok());
}

}  // namespace
}  // namespace kvtier
