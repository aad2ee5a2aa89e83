#include "client/lanes/calibration_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/lanes_rig.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::LanesRig;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

const CalibratedDevice kDevice = {.gpu = "GPU-1", .driver = "580.1"};
const LinkModel kLink = LinkModel::Pcie4();

class CalibrationFileTest : public ::testing::Test {
 protected:
  CalibrationFileTest() { std::filesystem::remove(path_); }
  ~CalibrationFileTest() override { std::filesystem::remove(path_); }
  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  // Jobs of up to so many bytes are measured when lanes are opened.
  WorkerLanesOptions Options(uint64_t job_bytes) const {
    return {.calibration_file = path_, .calibrated = kDevice, .calibration_job_bytes = job_bytes};
  }
  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }
  // Lanes are opened on a device like this, and closed before they copied anything.
  static void OpenAndClose(const WorkerLanesOptions& options,
                           const EmulatedDevice::Options& device = {}) {
    LanesRig rig(device, {}, options);
  }

  const std::string path_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(CalibrationFileTest, WhatIsWrittenIsRead) {
  CalibrationTable table(kLink);
  table.Set({.size = 3, .count = 2}, absl::Microseconds(77));
  ASSERT_EQ(WriteCalibration(path_, {.device = kDevice, .table = table}), absl::OkStatus());
  const auto read = ReadCalibration(path_, kDevice, kLink);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->measured({.size = 3, .count = 2}), absl::Microseconds(77));
}

TEST_F(CalibrationFileTest, WhatIsNotACalibrationOfThisDeviceIsSaid) {
  EXPECT_EQ(ReadCalibration(path_, kDevice, kLink).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadCalibration(::testing::TempDir(), kDevice, kLink).status().code(),
            absl::StatusCode::kUnavailable);
  Write("nonsense");
  EXPECT_EQ(ReadCalibration(path_, kDevice, kLink).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(WriteCalibration(path_, {.device = kDevice, .table = CalibrationTable(kLink)}),
            absl::OkStatus());
  EXPECT_EQ(ReadCalibration(path_, {.gpu = "GPU-2", .driver = "580.1"}, kLink).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      WriteCalibration("/nowhere/at/all", {.device = kDevice, .table = CalibrationTable(kLink)})
          .code(),
      absl::StatusCode::kUnavailable);
}

TEST_F(CalibrationFileTest, LanesMeasureWhatTheyCopyAndKeepIt) {
  Write("damaged, and so left aside");
  {
    LanesRig rig({}, {}, Options(0));
    TensorMemory memory(testing::FusedLayout, {.layers = 8, .slots = 16, .run_bytes = 64 << 10});
    const auto pool = rig.Register(&memory);
    ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 8), Slots(0, 8)})), 8U);
    for (size_t i = 0; i < kMinCalibrationSamples; ++i) {
      ASSERT_EQ(BlocksOf(pool->Onboard({TestKeys(1, 8), Slots(8, 8)})), 8U);
    }
  }
  const auto kept = ReadCalibration(path_, kDevice, kLink);
  ASSERT_TRUE(kept.ok()) << kept.status();
  size_t measured = 0;
  for (size_t path = 0; path < kCopyPaths; ++path) {
    // 64 segments of 64 KiB.
    const CalibrationCell cell = {.path = static_cast<CopyPath>(path), .size = 8, .count = 3};
    measured += kept->measured(cell) > absl::ZeroDuration() ? 1 : 0;
  }
  EXPECT_EQ(measured, 1U);
}

constexpr uint64_t kJobBytes = 16 << 10;

TEST_F(CalibrationFileTest, ADeviceIsMeasuredWhenItsLanesAreOpenedAndWrittenDownAtOnce) {
  const LanesRig rig({.link = kLink}, {}, Options(kJobBytes));
  const auto kept = ReadCalibration(path_, kDevice, LinkModel::Pcie5());
  ASSERT_TRUE(kept.ok()) << kept.status();
  for (size_t path = 0; path < kCopyPaths; ++path) {
    // 4 segments of 4 KiB, and 4 of 8.
    CalibrationCell cell = {.path = static_cast<CopyPath>(path), .size = 2, .count = 1};
    const absl::Duration own = PredictJob(kLink, JobOf(cell), cell.path);
    EXPECT_NEAR(absl::FDivDuration(kept->measured(cell), own), 1, 0.01);
    cell.size = 3;
    EXPECT_EQ(kept->measured(cell), absl::ZeroDuration());
  }
}

TEST_F(CalibrationFileTest, ADeviceIsMeasuredOnce) {
  CalibrationTable table(kLink);
  table.Set({.size = 3, .count = 2}, absl::Microseconds(77));
  ASSERT_EQ(WriteCalibration(path_, {.device = kDevice, .table = table}), absl::OkStatus());
  const std::string before = Text();
  OpenAndClose(Options(kJobBytes));
  EXPECT_EQ(Text(), before) << "whatever the file says of it";
  std::filesystem::remove(path_);
  OpenAndClose(Options(kJobBytes), {.link = LinkModel::Pcie4()});
  const std::string measured = Text();
  OpenAndClose(Options(kJobBytes), {.link = LinkModel::Coherent()});
  EXPECT_EQ(Text(), measured) << "and what a sweep wrote is as good";
}

TEST_F(CalibrationFileTest, AFileWithNothingOfThisDeviceIsMeasuredAnew) {
  const CalibrationTable table(kLink);
  const auto measured_anew = [this] {
    OpenAndClose(Options(kJobBytes));
    const auto kept = ReadCalibration(path_, kDevice, kLink);
    return kept.ok() && kept->measured({}) > absl::ZeroDuration();
  };
  Write("damaged");
  EXPECT_TRUE(measured_anew());
  for (const CalibratedDevice& other :
       {CalibratedDevice{"GPU-2", kDevice.driver}, CalibratedDevice{kDevice.gpu, "590.1"}}) {
    ASSERT_EQ(WriteCalibration(path_, {.device = other, .table = table}), absl::OkStatus());
    EXPECT_TRUE(measured_anew()) << other.gpu << other.driver;
  }
}

TEST_F(CalibrationFileTest, WithoutABoundNothingIsMeasured) {
  OpenAndClose(Options(0));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(CalibrationFileTest, WhatCannotBeMeasuredOrWrittenIsUsedAllTheSame) {
  const EmulatedDevice::Options timeless = {.link = LinkModel::Instant()};
  WorkerLanesOptions nowhere = Options(kJobBytes);
  nowhere.calibration_file = "/nowhere/at/all";
  const std::vector<std::pair<EmulatedDevice::Options, WorkerLanesOptions>> cases = {
      {timeless, Options(kJobBytes)}, {{}, nowhere}};
  for (const auto& [device, options] : cases) {
    LanesRig rig(device, {}, options);
    EXPECT_FALSE(std::filesystem::exists(options.calibration_file));
    TensorMemory memory(testing::FusedLayout, {.layers = 8, .slots = 16, .run_bytes = 64 << 10});
    const auto pool = rig.Register(&memory);
    EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 8), Slots(0, 8)})), 8U);
  }
}

TEST_F(CalibrationFileTest, AFileOfNoDeviceIsRefused) {
  LanesRig rig;
  EXPECT_EQ(
      WorkerLanes::Open(&rig.client(), &rig.device(), {.calibration_file = path_}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvtier
