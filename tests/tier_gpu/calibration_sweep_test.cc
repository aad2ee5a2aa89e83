#include "tier_gpu/calibration_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "tier_gpu/device/emulated_device.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr std::array<CopyPath, kCopyPaths> kPaths = {CopyPath::kBatch, CopyPath::kStaged,
                                                     CopyPath::kDirect};
constexpr uint64_t kSmall = 256 << 10;  // Jobs of one batch each.

// Virtual time that passes whenever somebody looks at it, as a sweep does all the while.
class LookedAtClock final : public Clock {
 public:
  absl::Time Now() const override {
    now_ += absl::Microseconds(10);
    if (now_ >= due_) {
      due_ = absl::InfiniteFuture();
      event_();
    }
    return now_;
  }
  void At(absl::Duration from_now, std::function<void()> event) {
    due_ = now_ + from_now;
    event_ = std::move(event);
  }

 private:
  mutable absl::Time now_ = absl::UnixEpoch();
  mutable absl::Time due_ = absl::InfiniteFuture();
  std::function<void()> event_;
};

std::vector<CalibrationCell> CellsOf(CopyPath path) {
  std::vector<CalibrationCell> cells;
  for (const CopyDirection direction : {kIn, kOut}) {
    for (size_t size = 0; size < kCalibrationSizes.size(); ++size) {
      for (size_t count = 0; count < kCalibrationCounts.size(); ++count) {
        cells.push_back({.direction = direction, .path = path, .size = size, .count = count});
      }
    }
  }
  return cells;
}

uint64_t BytesOf(const CalibrationCell& cell) {
  return kCalibrationSizes[cell.size] * kCalibrationCounts[cell.count];
}

// What the emulated device takes for a job: its lanes run one batch after the other.
absl::Duration OnDevice(const LinkModel& link, const CopyJob& job, CopyPath path) {
  const size_t most = BatchSegments(job.segment_bytes);
  absl::Duration took;
  for (size_t left = job.segments; left > 0; left -= std::min(most, left)) {
    const size_t segments = std::min(most, left);
    took += link.Predict({.direction = job.direction,
                          .path = path,
                          .segments = segments,
                          .bytes = segments * job.segment_bytes});
  }
  return took;
}

uint64_t MappedBytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

class CalibrationSweepTest : public ::testing::Test {
 protected:
  absl::StatusOr<size_t> Sweep(EmulatedDevice* device, uint64_t max_job_bytes) {
    return SweepCalibration(device, {.max_job_bytes = max_job_bytes}, &table_);
  }
  // Nothing of what a sweep says stays in the table when it fails.
  void ExpectNothingMeasured() const {
    for (const CopyPath path : kPaths) {
      for (const CalibrationCell& cell : CellsOf(path)) {
        EXPECT_EQ(table_.measured(cell), absl::ZeroDuration());
      }
    }
  }

  LookedAtClock clock_;
  CalibrationTable table_{LinkModel::Pcie5()};  // Of another link than the devices'.
};

TEST_F(CalibrationSweepTest, WhatIsMeasuredIsWhatTheDeviceTakes) {
  for (const LinkModel& link : {LinkModel::Pcie4(), LinkModel::Coherent()}) {
    EmulatedDevice device(&clock_, {.link = link, .seed = 1});
    table_ = CalibrationTable(LinkModel::Pcie5());
    const auto cells = Sweep(&device, kSmall);
    ASSERT_TRUE(cells.ok()) << cells.status();
    size_t measured = 0;
    for (const CopyPath path : kPaths) {
      for (const CalibrationCell& cell : CellsOf(path)) {
        if (BytesOf(cell) > kSmall) {
          EXPECT_EQ(table_.measured(cell), absl::ZeroDuration());
          continue;
        }
        ++measured;
        const CopyJob job = JobOf(cell);
        const absl::Duration took = OnDevice(link, job, path);
        EXPECT_NEAR(absl::FDivDuration(table_.measured(cell), took), 1, 0.01)
            << job.segments << " of " << job.segment_bytes;
        EXPECT_NEAR(absl::FDivDuration(table_.Time(job, path), took), 1, 0.01);
      }
    }
    EXPECT_EQ(*cells, measured);
  }
}

TEST_F(CalibrationSweepTest, TheTableThenChoosesAsTheDevicesOwn) {
  const CalibrationTable assumed = table_;
  const CalibrationTable own(LinkModel::Pcie4());
  EmulatedDevice device(&clock_, {.link = LinkModel::Pcie4()});
  ASSERT_TRUE(Sweep(&device, kSmall).ok());
  size_t changed = 0;
  for (const CalibrationCell& cell : CellsOf(CopyPath::kBatch)) {
    if (BytesOf(cell) > kSmall) continue;
    const CopyJob job = JobOf(cell);
    const CopyPath chosen = table_.Choose(job, LanePaths::kAll);
    EXPECT_EQ(chosen, own.Choose(job, LanePaths::kAll))
        << job.segments << " of " << job.segment_bytes;
    changed += chosen != assumed.Choose(job, LanePaths::kAll) ? 1 : 0;
  }
  EXPECT_GT(changed, 0U) << "the links would not differ";
}

// 16 segments of 16 KiB toward the device: of a PCIe 5.0 GPU, kernels are ahead there.
TEST_F(CalibrationSweepTest, AndSoDoesThePlanner) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kLatent, 1, 16 << 10, 32);
  std::vector<std::byte> host(uint64_t{32} * (16 << 10));
  std::vector<PlannedBlock> blocks;
  for (uint32_t i = 0; i < 16; ++i) {
    blocks.push_back({.slot = 2 * i, .host = host.data() + uint64_t{2} * i * (16 << 10)});
  }
  const auto path = [&] {
    return PlanCopies(geometry, {.blocks = blocks, .direction = kIn}, table_)->batches.at(0).path;
  };
  EXPECT_NE(path(), CopyPath::kBatch);
  EmulatedDevice device(&clock_, {.link = LinkModel::Pcie4()});
  ASSERT_TRUE(Sweep(&device, kSmall).ok());
  EXPECT_EQ(path(), CopyPath::kBatch);
}

TEST_F(CalibrationSweepTest, WithoutKernelsOnlyBatchesAreMeasuredAndLongJobsInTheirBatches) {
  const LinkModel link = LinkModel::Pcie4();
  EmulatedDevice device(&clock_, {.link = link, .kernels = false});
  constexpr uint64_t kFourBatches = 4 << 20;  // Of 1,024 segments of 1 KiB.
  const auto cells = Sweep(&device, kFourBatches);
  ASSERT_TRUE(cells.ok()) << cells.status();
  size_t measured = 0;
  for (const CalibrationCell& cell : CellsOf(CopyPath::kBatch)) {
    if (BytesOf(cell) > kFourBatches) continue;
    ++measured;
    const absl::Duration took = OnDevice(link, JobOf(cell), cell.path);
    EXPECT_NEAR(absl::FDivDuration(table_.measured(cell), took), 1, 0.01);
  }
  EXPECT_EQ(*cells, measured);
  for (const CopyPath path : {CopyPath::kStaged, CopyPath::kDirect}) {
    for (const CalibrationCell& cell : CellsOf(path)) {
      EXPECT_EQ(table_.measured(cell), absl::ZeroDuration());
    }
  }
}

TEST_F(CalibrationSweepTest, ASecondSweepOfADeviceFindsItAsItWas) {
  EmulatedDevice device(&clock_, {});
  const uint64_t before = MappedBytes();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Sweep(&device, kSmall).ok());
  EXPECT_LT(MappedBytes(), before + kSmall);
}

TEST_F(CalibrationSweepTest, ADeviceLostInTheMiddleEndsItAndTheMemoryIsGivenBack) {
  constexpr uint64_t kLong = uint64_t{64} << 20;
  EmulatedDevice device(&clock_, {});
  const uint64_t before = MappedBytes();
  // Of the first job's 1.3 ms, the first 0.2 are its 16 submissions.
  clock_.At(absl::Microseconds(700), [&device] { device.Lose(); });
  const absl::Status status = Sweep(&device, kLong).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("calibration sweep: 16 segments of 4194304 bytes, direction 0, path 0: "
                        "emulated device: lost"));
  EXPECT_LT(MappedBytes(), before + kLong);
  ExpectNothingMeasured();
  EXPECT_EQ(Sweep(&device, kSmall).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(CalibrationSweepTest, ACopyThatFailsEndsIt) {
  EmulatedDevice device(&clock_, {});
  device.FailCopy(kOut, 100);
  EXPECT_EQ(Sweep(&device, kSmall).status().code(), absl::StatusCode::kUnavailable);
  ExpectNothingMeasured();
  EXPECT_TRUE(Sweep(&device, kSmall).ok()) << "the device is idle again";
}

// Nobody can tell when it lets go of the memory, which stays.
TEST_F(CalibrationSweepTest, ADeviceThatEndsNothingIsNotWaitedForForEver) {
  EmulatedDevice device(&clock_, {});
  device.Stall(Lane::kOnboard);
  const absl::Status status =
      SweepCalibration(&device, {.max_job_bytes = kSmall, .job_timeout = absl::Milliseconds(20)},
                       &table_)
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("still busy after 20ms"));
  ExpectNothingMeasured();
  device.Resume(Lane::kOnboard);
  EXPECT_EQ(device.Drain(absl::Seconds(1)), absl::OkStatus()) << "into memory that is there";
}

TEST_F(CalibrationSweepTest, MemoryThatIsNotThereIsSaid) {
  EmulatedDevice device(&clock_, {});
  const absl::Status host = Sweep(&device, uint64_t{1} << 50).status();
  EXPECT_EQ(host.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(host.message()), HasSubstr("1125899906842624 bytes of pinned host"));
  // The device's memory is files here.
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status memory = Sweep(&device, 3 << 20).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(memory.message()), HasSubstr("6291456 bytes of device memory"));
  EXPECT_TRUE(Sweep(&device, kSmall).ok());
}

TEST_F(CalibrationSweepTest, ABoundBelowEveryJobIsRefused) {
  EmulatedDevice device(&clock_, {});
  const absl::Status status = Sweep(&device, 1023).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_job_bytes is 1023, less than"));
  const auto one = Sweep(&device, 1024);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(*one, kCopyDirections * kCopyPaths);
}

TEST_F(CalibrationSweepTest, ADeviceThatTakesNoTimeCannotBeMeasured) {
  EmulatedDevice device(&clock_, {.link = LinkModel::Instant()});
  const absl::Status status = Sweep(&device, kSmall).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("a sample of 0"));
}

}  // namespace
}  // namespace kvtier
