#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/testing/test_seed.h"
#include "tier_gpu/plan/calibration.h"
#include "tier_gpu/plan/calibration_text.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(table.measured(kCell), absl::ZeroDuration());
  EXPECT_EQ(table.Time(kCellJob, CopyPath::kStaged), PredictJob(link, kCellJob, CopyPath::kStaged));
  const CopyJob between = {.direction = kOut, .segment_bytes = 72 << 10, .segments = 200};
  EXPECT_EQ(table.Time(between, CopyPath::kStaged), PredictJob(link, between, CopyPath::kStaged));
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

// As long as all of its batches take, one by one.
TEST(CalibrationTest, ALongJobIsPredictedWithoutLookingAtAllOfIt) {
  for (const LinkModel& link : {LinkModel::Pcie5(), LinkModel::Coherent()}) {
    for (const CopyPath path : {CopyPath::kBatch, CopyPath::kStaged, CopyPath::kDirect}) {
      for (const size_t segments : {64 * 9, 64 * 200, 64 * 201, 64 * 333 + 5}) {
        const CopyJob job = {.direction = kOut, .segment_bytes = 64 << 10, .segments = segments};
        std::vector<CopyShape> batches(
            segments / 64, {.direction = kOut, .path = path, .segments = 64, .bytes = 4 << 20});
        const size_t rest = segments % 64;
        if (rest > 0) batches.push_back({kOut, path, rest, rest << 16});
        const absl::Duration all = link.PredictLane(batches);
        EXPECT_NEAR(absl::FDivDuration(PredictJob(link, job, path), all), 1, 1e-6) << segments;
      }
    }
  }
}

TEST(CalibrationTest, TheMedianReplacesAPrediction) {
  CalibrationTable table(LinkModel::Pcie5());
  const absl::Duration near = table.Time(kCellJob, kCell.path) * 1.01;
  EXPECT_EQ(table.Calibrate(kCell, Samples(near)), absl::OkStatus());
  EXPECT_EQ(table.measured(kCell), near);
  EXPECT_NEAR(absl::FDivDuration(table.Time(kCellJob, kCell.path), near), 1, 1e-6);
}

TEST(CalibrationTest, AMeasuredTimeStaysUntilItIsLeftByTheHysteresis) {
  CalibrationTable table(LinkModel::Pcie5());
  const absl::Duration first = absl::Microseconds(100);
  for (const double times : {1.0, 1.14, 0.88, 1.149}) {
    ASSERT_EQ(table.Calibrate(kCell, Samples(first * times)), absl::OkStatus());
    EXPECT_EQ(table.measured(kCell), first);
  }
  ASSERT_EQ(table.Calibrate(kCell, Samples(first * 1.16)), absl::OkStatus());
  EXPECT_EQ(table.measured(kCell), first * 1.16);
  ASSERT_EQ(table.Calibrate(kCell, Samples(first * 0.99)), absl::OkStatus());
  EXPECT_EQ(table.measured(kCell), first * 0.99);
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
    const CopyPath now = table.Choose(kCellJob, LanePaths::kAll);
    if (round > 0 && now != chosen) ++changes;
    chosen = now;
  }
  EXPECT_EQ(changes, 0);
}

TEST(CalibrationTest, WhatIsNoMeasurementIsRefusedAndChangesNothing) {
  CalibrationTable table(LinkModel::Pcie5());
  const absl::Duration before = table.Time(kCellJob, kCell.path);
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
  EXPECT_EQ(table.measured(kCell), absl::ZeroDuration());
  EXPECT_EQ(table.Time(kCellJob, kCell.path), before);
  CalibrationTable timeless(LinkModel::Instant());
  EXPECT_THAT(std::string(timeless.Calibrate(kCell, Samples(absl::Microseconds(1))).message()),
              HasSubstr("copies take no time"));
}

TEST(CalibrationTest, BetweenTwoPointsTheModelIsCorrectedInAStraightLine) {
  const LinkModel link = LinkModel::Pcie5();
  CalibrationTable table(link);
  const auto set = [&](size_t size, size_t count, double times) {
    const CopyJob job = {.direction = kIn,
                         .segment_bytes = kCalibrationSizes[size],
                         .segments = kCalibrationCounts[count]};
    table.Set({.direction = kIn, .path = CopyPath::kBatch, .size = size, .count = count},
              times * PredictJob(link, job, CopyPath::kBatch));
  };
  set(0, 0, 2);
  set(0, 1, 5);
  set(1, 0, 4);
  set(1, 1, 7);
  set(14, 6, 3);
  const auto times = [&](uint64_t bytes, size_t segments) {
    const CopyJob job = {.direction = kIn, .segment_bytes = bytes, .segments = segments};
    return absl::FDivDuration(table.Time(job, CopyPath::kBatch),
                              PredictJob(link, job, CopyPath::kBatch));
  };
  EXPECT_NEAR(times(1024, 2), 3, 1e-6);
  EXPECT_NEAR(times(1536, 1), 3, 1e-6);
  EXPECT_NEAR(times(1536, 4), 6, 1e-6);
  EXPECT_NEAR(times(1, 1), 2, 1e-6) << "below the first as the first";
  EXPECT_NEAR(times(8 << 20, 12'288), 3, 1e-6) << "past the last as the last";
}

constexpr size_t kSize32KiB = 7;

// How many times as long as predicted the table says that a job takes.
double Times(const CalibrationTable& table, const CopyJob& job, CopyPath path) {
  return absl::FDivDuration(table.Time(job, path), PredictJob(table.link(), job, path));
}

void SetTimes(const CalibrationCell& cell, double times, CalibrationTable* table) {
  table->Set(cell, times * PredictJob(table->link(), JobOf(cell), cell.path));
}

// No batch has more than 128 segments of 32 KiB, so copies of the day measured nothing of
// a job of 4,096, and it was predicted as before.
TEST(CalibrationTest, ALongJobTakesTheRatioOfTheShortOnesItRepeats) {
  CalibrationTable table(LinkModel::Pcie5());
  const CopyJob job = {.direction = kOut, .segment_bytes = 32 << 10, .segments = 4096};
  SetTimes({.direction = kOut, .path = CopyPath::kBatch, .size = kSize32KiB, .count = 3}, 3,
           &table);
  const auto times = [&table, job](size_t segments) {
    CopyJob other = job;
    other.segments = segments;
    return Times(table, other, CopyPath::kBatch);
  };
  for (const size_t segments : {64, 65, 256, 1000, 1024, 4096, 100'000}) {
    EXPECT_NEAR(times(segments), 3, 1e-6) << segments;
  }
  EXPECT_NEAR(times(16), 1, 1e-6) << "a shorter job does not repeat it";
  EXPECT_NEAR(times(40), 2, 1e-6) << "between 16 and 64 a straight line";
  EXPECT_EQ(table.measured({.direction = kOut, .size = kSize32KiB, .count = 6}),
            absl::ZeroDuration())
      << "and is not measured by it";
}

TEST(CalibrationTest, WhatIsMeasuredHereChangesTheChoiceOfALongJob) {
  CalibrationTable table(LinkModel::Pcie5());
  const CopyJob job = {.direction = kOut, .segment_bytes = 32 << 10, .segments = 4096};
  ASSERT_NE(table.Choose(job, LanePaths::kAll), CopyPath::kBatch);
  SetTimes({.direction = kOut, .path = CopyPath::kStaged, .size = kSize32KiB, .count = 3}, 2,
           &table);
  SetTimes({.direction = kOut, .path = CopyPath::kDirect, .size = kSize32KiB, .count = 2}, 2,
           &table);
  EXPECT_EQ(table.Choose(job, LanePaths::kAll), CopyPath::kBatch);
}

TEST(CalibrationTest, TheNearestMeasuredCellWithFewerSegmentsCountsInWhateverOrder) {
  const std::vector<std::pair<size_t, double>> measured = {{1, 2}, {3, 3}, {5, 4}};
  std::vector<size_t> order = {0, 1, 2};
  do {
    CalibrationTable table(LinkModel::Pcie5());
    CalibrationCell cell = {.direction = kIn, .path = CopyPath::kDirect, .size = kSize32KiB};
    for (const size_t i : order) {
      cell.count = measured[i].first;
      SetTimes(cell, 7, &table);  // Measured before, as something else.
      SetTimes(cell, measured[i].second, &table);
    }
    const std::array<double, kCalibrationCounts.size()> expected = {1, 2, 2, 3, 3, 4, 4};
    for (cell.count = 0; cell.count < expected.size(); ++cell.count) {
      EXPECT_NEAR(Times(table, JobOf(cell), cell.path), expected[cell.count], 1e-6) << cell.count;
    }
  } while (std::ranges::next_permutation(order).found);
}

TEST(CalibrationTest, AMeasurementSaysNothingOfAnotherDirectionPathOrSize) {
  CalibrationTable table(LinkModel::Pcie5());
  const CalibrationCell cell = {
      .direction = kIn, .path = CopyPath::kBatch, .size = kSize32KiB, .count = 2};
  SetTimes(cell, 3, &table);
  CalibrationCell other = {.direction = kOut, .path = cell.path, .size = cell.size, .count = 6};
  EXPECT_NEAR(Times(table, JobOf(other), other.path), 1, 1e-6);
  other = {.direction = kIn, .path = CopyPath::kStaged, .size = cell.size, .count = 6};
  EXPECT_NEAR(Times(table, JobOf(other), other.path), 1, 1e-6);
  for (const size_t size : {cell.size - 1, cell.size + 1}) {
    other = {.direction = kIn, .path = cell.path, .size = size, .count = 6};
    EXPECT_NEAR(Times(table, JobOf(other), other.path), 1, 1e-6) << size;
  }
  const CopyJob between = {.direction = kIn, .segment_bytes = 48 << 10, .segments = 4096};
  EXPECT_NEAR(Times(table, between, cell.path), 2, 1e-6) << "half-way to 64 KiB";
}

TEST(CalibrationTest, AnAgentsLaneRunsNoKernels) {
  const CalibrationTable table(LinkModel::Coherent());
  EXPECT_NE(table.Choose(kCellJob, LanePaths::kAll), CopyPath::kBatch);
  EXPECT_EQ(table.Choose(kCellJob, LanePaths::kEngine), CopyPath::kBatch);
}

TEST(CalibrationTest, AKernelThatIsHardlyFasterIsNotWorthItsProcessors) {
  CalibrationTable table(LinkModel::Pcie5());
  const auto choose = [&table](double batch, double staged, double direct) {
    const std::array<double, kCopyPaths> times = {batch, staged, direct};
    for (size_t path = 0; path < times.size(); ++path) {
      CalibrationCell cell = kCell;
      cell.path = static_cast<CopyPath>(path);
      table.Set(cell, absl::Microseconds(1) * times[path]);
    }
    return table.Choose(kCellJob, LanePaths::kAll);
  };
  EXPECT_EQ(choose(100, 97, 97), CopyPath::kBatch);
  EXPECT_EQ(choose(100, 95, 97), CopyPath::kStaged);
  EXPECT_EQ(choose(100, 95, 94), CopyPath::kDirect);
}

class CalibrationTextTest : public ::testing::Test {
 protected:
  CalibrationTextTest() {
    CalibrationTable table(kLink);
    CalibrationCell first;
    EXPECT_EQ(table.Calibrate(first, Samples(absl::Nanoseconds(2442))), absl::OkStatus());
    EXPECT_EQ(table.Calibrate(kCell, Samples(absl::Nanoseconds(4711))), absl::OkStatus());
    text_ = FormatCalibration({.device = kDevice, .table = table});
  }
  static absl::StatusOr<CalibrationTable> Parse(const std::string& text,
                                                const CalibratedDevice& device = kDevice) {
    return ParseCalibration(text, device, kLink);
  }

  static const LinkModel kLink;
  std::string text_;
};
const LinkModel CalibrationTextTest::kLink = LinkModel::Pcie4();

TEST_F(CalibrationTextTest, WhatIsWrittenIsRead) {
  EXPECT_EQ(text_,
            "kvtier-measured-paths 1\ngpu GPU-5d8c driver 580.159.04\nh2d 1024 1 batch 2442\n"
            "d2h 8192 256 staged 4711\ncells 2\n");
  const auto read = Parse(text_);
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(FormatCalibration({.device = kDevice, .table = *read}), text_);
  EXPECT_EQ(read->measured(kCell), absl::Nanoseconds(4711));
}

TEST_F(CalibrationTextTest, AnotherDeviceOrDriverIsToBeMeasuredAnew) {
  for (const CalibratedDevice& other :
       {CalibratedDevice{"GPU-77", kDevice.driver}, CalibratedDevice{kDevice.gpu, "590.1"}}) {
    const absl::Status status = Parse(text_, other).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("not of gpu ", other.gpu, " driver ", other.driver)));
  }
}

TEST_F(CalibrationTextTest, WhatIsWrongIsNamedWithItsLine) {
  const auto expect = [this](absl::string_view from, absl::string_view to,
                             const std::string& message) {
    const std::string wrong = absl::StrReplaceAll(text_, {{from, to}});
    ASSERT_NE(wrong, text_);
    const absl::Status status = Parse(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  const std::string cell = "h2d 1024 1 batch 2442";
  expect("kvtier-measured-paths 1", "kvtier-calibration 2",
         "line 1: not 'kvtier-measured-paths 1'");
  expect("gpu GPU-5d8c", "gpu", "line 2: not a gpu and a driver: 'gpu driver 580.159.04'");
  expect(cell, "x2d 1024 1 batch 2442", "line 3: no direction: 'x2d'");
  expect(cell, "h2d 1025 1 batch 2442", "line 3: no size of the table: '1025'");
  expect(cell, "h2d 1024 2 batch 2442", "line 3: no count of the table: '2'");
  expect(cell, "h2d 1024 1 loop 2442", "line 3: no path: 'loop'");
  expect(cell, "h2d 1024 1 batch fast", "line 3: no time of up to an hour: 'fast'");
  expect(cell, "h2d 1024 1 batch 0", "line 3: no time of up to an hour: '0'");
  expect(cell, "h2d 1024 1 batch 3600000000001", "'3600000000001'");
  expect(cell, "h2d 1024 1 2442", "line 3: not the five words of a cell");
  expect(cell, cell + "\n" + cell, "line 4: there twice: 'h2d 1024 1 batch 2442'");
  expect(cell + "\n", "", "line 4: not 'cells 1': 'cells 2'");
}

TEST_F(CalibrationTextTest, ALinkWithoutTimesCannotBeCorrected) {
  EXPECT_EQ(ParseCalibration(text_, kDevice, LinkModel::Instant()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(CalibrationTextTest, EveryShorterTextIsRefused) {
  for (size_t bytes = 0; bytes + 1 < text_.size(); ++bytes) {
    EXPECT_FALSE(Parse(text_.substr(0, bytes)).ok()) << bytes;
  }
  EXPECT_TRUE(Parse(text_.substr(0, text_.size() - 1)).ok());
}

}  // namespace
}  // namespace kvtier
