#include "tier_disk/io/watched_disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/tier_disk/run_task.h"
#include "tier_disk/io/page_buffer.h"

namespace kvtier {
namespace {

using testing::Collect;
using testing::RunTask;
using testing::SimDisk;
using testing::SimDiskMedia;
using testing::SimExecutor;
using testing::SimTime;

using Outcome = std::optional<absl::Status>;

// PausingExecutor is an executor whose process can stop: tasks due meanwhile run late.
class PausingExecutor final : public Executor {
 public:
  explicit PausingExecutor(Executor* executor) : executor_(executor) {}
  void Pause(absl::Duration duration) { paused_ += duration; }
  absl::Time Now() const override { return executor_->Now() + paused_; }
  void Post(Closure fn) override { executor_->Post(std::move(fn)); }
  TimerId PostAt(absl::Time when, Closure fn) override {
    return executor_->PostAt(when - paused_, std::move(fn));
  }
  void Cancel(TimerId id) override { executor_->Cancel(id); }
  bool OnExecutor() const override { return executor_->OnExecutor(); }

 private:
  Executor* const executor_;
  absl::Duration paused_;
};

class WatchedDiskTest : public ::testing::Test {
 protected:
  WatchedDiskTest() {
    watched_.SetOnChange([this] { changes_.push_back(watched_.health().healthy()); });
  }
  ~WatchedDiskTest() override { scope_.reset(); }

  Task<absl::Status> ReadPage() {
    PageBuffer page(4096);
    const std::array<std::span<std::byte>, 1> into = {page.bytes()};
    const DiskAddress from{.segment = SegmentId{0}, .offset = 0};
    const absl::Status status = co_await watched_.Read(IoClass::kForeground, from, into);
    co_return status;
  }
  Task<absl::Status> WritePage() {
    PageBuffer page(4096);
    const std::array<std::span<const std::byte>, 1> buffers = {page.bytes()};
    const DiskAddress to{.segment = SegmentId{0}, .offset = 0};
    const absl::Status status = co_await watched_.Write(IoClass::kOffload, to, buffers);
    co_return status;
  }
  absl::Status Read() { return RunTask(&time_, &executor_, ReadPage()); }
  absl::Status Write() { return RunTask(&time_, &executor_, WritePage()); }
  void ReadMany(int ios) {
    for (int i = 0; i < ios; ++i) Read().IgnoreError();  // Only the health matters.
  }
  void Start(Outcome* outcome) { scope_->Spawn(Collect(ReadPage(), outcome)); }
  void Pass(absl::Duration duration) { time_.RunUntil(time_.Now() + duration); }
  bool healthy() const { return watched_.health().healthy(); }

  SimTime time_;
  SimDiskMedia media_{4, uint64_t{4} << 20, 1};
  SimExecutor executor_{&time_};
  SimDisk disk_{&executor_, &media_};
  std::vector<bool> changes_;
  std::optional<TaskScope> scope_{std::in_place, &executor_};
  WatchedDisk watched_{&executor_, &*scope_, &disk_};
};

TEST_F(WatchedDiskTest, ReadsAndWritesPassThrough) {
  EXPECT_EQ(watched_.segment_count(), 4);
  EXPECT_EQ(watched_.segment_bytes(), uint64_t{4} << 20);
  EXPECT_EQ(Read(), absl::OkStatus());
  EXPECT_EQ(Write(), absl::OkStatus());
  media_.faults.read_error = 1;
  EXPECT_TRUE(absl::IsUnavailable(Read()));
  media_.faults.full = 1;
  EXPECT_TRUE(absl::IsResourceExhausted(Write()));
  EXPECT_EQ(watched_.in_flight(), 0);
  EXPECT_TRUE(changes_.empty());
}

TEST_F(WatchedDiskTest, AHealthyDiskAtRestHasNoTimers) {
  ReadMany(3);
  Pass(absl::Seconds(1));
  EXPECT_FALSE(time_.Step());
}

TEST_F(WatchedDiskTest, ErrorsQuarantineAndTellIt) {
  media_.faults.read_error = 1;
  ReadMany(kErrorsTooMany);
  EXPECT_FALSE(healthy());
  EXPECT_EQ(changes_, std::vector<bool>{false});
}

TEST_F(WatchedDiskTest, WriteErrorsCountToo) {
  media_.faults.write_error = 1;
  for (int i = 0; i < kErrorsTooMany; ++i) EXPECT_TRUE(absl::IsUnavailable(Write()));
  EXPECT_FALSE(healthy());
}

TEST_F(WatchedDiskTest, AQuarantinedDiskIsNotTouched) {
  media_.faults.read_error = 1;
  ReadMany(kErrorsTooMany);
  const uint64_t errors = media_.counts.errors;
  const absl::Time now = time_.Now();
  const absl::Status read = Read();
  EXPECT_TRUE(absl::IsUnavailable(read));
  EXPECT_THAT(std::string(read.message()), ::testing::HasSubstr("16 of the last 64 I/Os failed"));
  EXPECT_TRUE(absl::IsUnavailable(Write()));
  EXPECT_EQ(media_.counts.errors, errors);
  EXPECT_EQ(time_.Now(), now);
}

TEST_F(WatchedDiskTest, ProbesReadmitAfterTheFaultHasGone) {
  media_.faults.read_error = 1;
  ReadMany(kErrorsTooMany);
  Pass(absl::Seconds(20));
  EXPECT_FALSE(healthy());
  media_.faults.read_error = 0;
  Pass(kMaxProbeInterval);
  EXPECT_TRUE(healthy());
  EXPECT_EQ(changes_, (std::vector<bool>{false, true}));
  EXPECT_EQ(Read(), absl::OkStatus());
}

TEST_F(WatchedDiskTest, ProbesAreRareWhileTheyFail) {
  media_.faults.read_error = 1;
  ReadMany(kErrorsTooMany);
  const uint64_t before = media_.counts.errors;
  Pass(absl::Hours(1));
  const uint64_t probes = media_.counts.errors - before;
  // There is one probe every five minutes, and nine before that rate is reached.
  EXPECT_GE(probes, 10U);
  EXPECT_LE(probes, 25U);
}

TEST_F(WatchedDiskTest, AReadThatNeverEndsQuarantines) {
  disk_.Stall();
  Outcome outcome;
  Start(&outcome);
  Pass(kSilenceLimit - kWatchInterval);
  EXPECT_TRUE(healthy());
  Pass(2 * kWatchInterval);
  EXPECT_FALSE(healthy());
  EXPECT_FALSE(outcome.has_value());
  EXPECT_EQ(watched_.in_flight(), 1);
}

TEST_F(WatchedDiskTest, NothingIsProbedWhileAnIoIsStillOut) {
  disk_.Stall();
  Outcome outcome;
  Start(&outcome);
  Pass(absl::Hours(1));
  EXPECT_FALSE(healthy());
  EXPECT_EQ(watched_.in_flight(), 1);
  EXPECT_EQ(watched_.health().state(), DiskState::kQuarantined);
  disk_.Resume();
  Pass(absl::Seconds(5));
  EXPECT_EQ(outcome, absl::OkStatus());
  EXPECT_TRUE(healthy());
}

TEST_F(WatchedDiskTest, AProbeThatNeverEndsKeepsTheDiskOut) {
  media_.faults.read_error = 1;
  ReadMany(kErrorsTooMany);
  disk_.Stall();
  Pass(absl::Hours(1));
  EXPECT_EQ(watched_.in_flight(), 1);
  EXPECT_EQ(watched_.health().state(), DiskState::kQuarantined);
  media_.faults.read_error = 0;
  disk_.Resume();
  Pass(kMaxProbeInterval);
  EXPECT_TRUE(healthy());
}

TEST_F(WatchedDiskTest, ADiskThatTurnedSlowIsQuarantinedAndComesBackWhenFast) {
  media_.faults.latency = absl::Milliseconds(2);
  ReadMany(2 * kHistoryMinIos);
  media_.faults.latency *= 100;
  ReadMany(kSlowTooMany - 1);
  EXPECT_TRUE(healthy());
  ReadMany(1);
  EXPECT_FALSE(healthy());
  Pass(absl::Minutes(1));
  EXPECT_FALSE(healthy());  // The probes were slow as well.
  media_.faults.latency /= 100;
  Pass(absl::Minutes(2));
  EXPECT_TRUE(healthy());
}

TEST_F(WatchedDiskTest, ABurstOnAHealthyDiskIsNoSlowness) {
  ReadMany(2 * kHistoryMinIos);
  std::vector<Outcome> outcomes(500);
  for (Outcome& outcome : outcomes) Start(&outcome);
  Pass(absl::Seconds(1));
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome, absl::OkStatus());
  EXPECT_TRUE(changes_.empty());
}

// A debugger or a paused machine stops the process for a minute. When it goes on, its timer runs
// before the end of the read is reported.
TEST_F(WatchedDiskTest, OurOwnPauseIsNoStallOfTheDisk) {
  PausingExecutor pausing(&executor_);
  WatchedDisk watched(&pausing, &*scope_, &disk_);
  media_.faults.latency = kWatchInterval * 1.5;
  const auto read = [&]() -> Task<absl::Status> {
    PageBuffer page(4096);
    const std::array<std::span<std::byte>, 1> into = {page.bytes()};
    const DiskAddress from{.segment = SegmentId{0}, .offset = 0};
    const absl::Status status = co_await watched.Read(IoClass::kForeground, from, into);
    co_return status;
  };
  Outcome outcome;
  scope_->Spawn(Collect(read(), &outcome));
  pausing.Pause(absl::Minutes(1));
  Pass(kWatchInterval);
  EXPECT_FALSE(outcome.has_value());
  EXPECT_TRUE(watched.health().healthy());
  Pass(kWatchInterval);
  EXPECT_EQ(outcome, absl::OkStatus());
  EXPECT_TRUE(watched.health().healthy());
}

TEST_F(WatchedDiskTest, ATaskThatIsDestroyedIsNotOutAnyMore) {
  disk_.Stall();
  {
    TaskScope process(&executor_);
    Outcome outcome;
    process.Spawn(Collect(ReadPage(), &outcome));
    EXPECT_EQ(watched_.in_flight(), 1);
  }
  EXPECT_EQ(watched_.in_flight(), 0);
  Pass(absl::Minutes(1));
  EXPECT_TRUE(healthy());
}

}  // namespace
}  // namespace kvtier
