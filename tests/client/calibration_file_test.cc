#include "client/lanes/calibration_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

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
  WorkerLanesOptions Options() const { return {.calibration_file = path_, .calibrated = kDevice}; }

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
    LanesRig rig({}, {}, Options());
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

TEST_F(CalibrationFileTest, AFileOfNoDeviceIsRefused) {
  LanesRig rig;
  EXPECT_EQ(
      WorkerLanes::Open(&rig.client(), &rig.device(), {.calibration_file = path_}).status().code(),
      absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvtier
