#include "tier_gpu/device/emulated_device.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/copy_lane.h"

namespace kvtier {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kRegionBytes = 8 * kMiB;

// How and when one copy ended.
struct Ending {
  std::optional<absl::Status> status;
  absl::Time when;
};

// A device on the simulator's executor, one region, and copies in the background.
class EmulatedDeviceTest : public ::testing::Test {
 protected:
  static Task<void> Record(Executor* executor, Task<absl::Status> copy, Ending* ending) {
    ending->status = co_await copy;
    ending->when = executor->Now();
  }
  // Starts a copy of one segment; `*ending` and `segment` must outlive it.
  void Start(CopyDirection direction, const CopySegment& segment, Ending* ending) {
    Task<absl::Status> copy = device_.Copy(direction, region_.get(), {&segment, 1});
    scope_.Spawn(Record(&executor_, std::move(copy), ending));
  }
  absl::Duration Predicted(size_t segments, uint64_t bytes) const {
    return link_.Predict({.segments = segments, .bytes = bytes});
  }
  void RunToTheEnd() {
    while (time_.Step()) {
    }
  }
  absl::Status CopyNow(CopyDirection direction, std::span<const CopySegment> segments) {
    Ending ending;
    Task<absl::Status> copy = device_.Copy(direction, region_.get(), segments);
    scope_.Spawn(Record(&executor_, std::move(copy), &ending));
    RunToTheEnd();
    return ending.status.value_or(absl::UnknownError("the copy never ended"));
  }

  const LinkModel link_ = LinkModel::Pcie5();
  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  testing::InlineByteWorkers workers_;
  EmulatedDevice device_{&executor_, &workers_, {.link = link_}};
  std::unique_ptr<DeviceRegion> region_ = *device_.CreateRegion(kRegionBytes);
  TaskScope scope_{&executor_};  // Last: its tasks are destroyed before what they use.
};

constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;

TEST_F(EmulatedDeviceTest, BytesComeBackAsTheyWent) {
  std::vector<std::byte> in(3 * kMiB, std::byte{'k'});
  std::vector<std::byte> out(3 * kMiB);
  const std::vector<CopySegment> there = {{0, in.data(), kMiB},
                                          {5 * kMiB, in.data() + kMiB, 2 * kMiB}};
  const std::vector<CopySegment> back = {{0, out.data(), kMiB},
                                         {5 * kMiB, out.data() + kMiB, 2 * kMiB}};
  EXPECT_EQ(CopyNow(kIn, there), absl::OkStatus());
  EXPECT_EQ(CopyNow(kOut, back), absl::OkStatus());
  EXPECT_EQ(in, out);
}

TEST_F(EmulatedDeviceTest, ABatchTakesTheTimeOfItsLink) {
  std::vector<std::byte> host(4 * kMiB);
  const std::vector<CopySegment> segments = {{0, host.data(), kMiB},
                                             {kMiB, host.data() + kMiB, 3 * kMiB}};
  const absl::Time start = executor_.Now();
  ASSERT_EQ(CopyNow(kIn, segments), absl::OkStatus());
  EXPECT_EQ(executor_.Now() - start, Predicted(2, 4 * kMiB));
  // 4 MiB at 55 GB/s are 76 us; two descriptors and the batch add 3.4 us.
  EXPECT_GT(Predicted(2, 4 * kMiB), absl::Microseconds(79));
  EXPECT_LT(Predicted(2, 4 * kMiB), absl::Microseconds(80));
}

TEST_F(EmulatedDeviceTest, BatchesOfOneDirectionRunInTheOrderOfTheCalls) {
  std::vector<std::byte> first(kMiB, std::byte{1});
  std::vector<std::byte> second(kMiB, std::byte{2});
  const CopySegment from_first = {0, first.data(), kMiB};
  const CopySegment from_second = {0, second.data(), kMiB};
  Ending a;
  Ending b;
  const absl::Time start = executor_.Now();
  Start(kIn, from_first, &a);
  Start(kIn, from_second, &b);
  RunToTheEnd();
  EXPECT_EQ(a.when - start, Predicted(1, kMiB));
  EXPECT_EQ(b.when - start, 2 * Predicted(1, kMiB));
  std::byte last{};
  const CopySegment look = {kMiB - 1, &last, 1};
  ASSERT_EQ(CopyNow(kOut, {&look, 1}), absl::OkStatus());
  EXPECT_EQ(last, std::byte{2});
}

TEST_F(EmulatedDeviceTest, TheTwoDirectionsRunSideBySide) {
  std::vector<std::byte> in(kMiB);
  std::vector<std::byte> out(kMiB);
  const CopySegment there = {0, in.data(), kMiB};
  const CopySegment back = {4 * kMiB, out.data(), kMiB};
  Ending a;
  Ending b;
  const absl::Time start = executor_.Now();
  Start(kIn, there, &a);
  Start(kOut, back, &b);
  RunToTheEnd();
  EXPECT_EQ(a.when - start, Predicted(1, kMiB));
  EXPECT_EQ(b.when, a.when);
}

TEST_F(EmulatedDeviceTest, SourcesAreReadWhenTheBatchRuns) {
  std::byte source{1};
  const CopySegment segment = {0, &source, 1};
  Ending ending;
  device_.Stall(kIn);
  Start(kIn, segment, &ending);
  RunToTheEnd();
  source = std::byte{2};  // A worker that reuses its slot too early.
  device_.Resume(kIn);
  RunToTheEnd();
  std::byte seen{};
  const CopySegment look = {0, &seen, 1};
  ASSERT_EQ(CopyNow(kOut, {&look, 1}), absl::OkStatus());
  EXPECT_EQ(seen, std::byte{2});
}

TEST_F(EmulatedDeviceTest, AFullLaneRefusesAndTheOtherDoesNot) {
  std::byte byte{};
  const CopySegment segment = {0, &byte, 1};
  std::vector<Ending> endings(kMaxLaneTurns);
  device_.Stall(kIn);
  for (Ending& ending : endings) Start(kIn, segment, &ending);
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CopyNow(kOut, {&segment, 1}), absl::OkStatus());
  device_.Resume(kIn);
  RunToTheEnd();
  for (const Ending& ending : endings) EXPECT_EQ(ending.status, absl::OkStatus());
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}), absl::OkStatus());
}

TEST_F(EmulatedDeviceTest, AWaiterWithADeadlineLeavesAStalledCopyBehind) {
  std::byte byte{};
  const CopySegment segment = {0, &byte, 1};
  Event done(&executor_);
  device_.Stall(kIn);
  const auto copy_then_tell = [](Task<absl::Status> copy, Event* done) -> Task<void> {
    (co_await copy).IgnoreError();  // The waiter's patience is what is tested.
    done->Set();
  };
  scope_.Spawn(copy_then_tell(device_.Copy(kIn, region_.get(), {&segment, 1}), &done));
  std::optional<bool> in_time;
  const absl::Time deadline = executor_.Now() + absl::Milliseconds(5);
  const auto wait = [](Event* done, absl::Time deadline,
                       std::optional<bool>* in_time) -> Task<void> {
    *in_time = co_await done->WaitUntil(deadline);
  };
  scope_.Spawn(wait(&done, deadline, &in_time));
  RunToTheEnd();
  EXPECT_EQ(in_time, false);
  EXPECT_EQ(executor_.Now(), deadline);
  device_.Resume(kIn);
  RunToTheEnd();
  EXPECT_TRUE(done.is_set());
}

TEST_F(EmulatedDeviceTest, TheChosenCopyFailsAndTheNextSucceeds) {
  std::byte byte{};
  const CopySegment segment = {0, &byte, 1};
  device_.FailCopy(kIn, 2);
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}), absl::OkStatus());
  EXPECT_EQ(CopyNow(kOut, {&segment, 1}), absl::OkStatus()) << "the other direction";
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}), absl::OkStatus());
}

TEST_F(EmulatedDeviceTest, AFailedCopyMayHaveMovedAPart) {
  std::vector<std::byte> in(2, std::byte{7});
  std::vector<std::byte> out(2);
  const std::vector<CopySegment> there = {{0, &in[0], 1}, {1, &in[1], 1}};
  const std::vector<CopySegment> back = {{0, &out[0], 1}, {1, &out[1], 1}};
  device_.FailCopy(kIn, 1);
  ASSERT_FALSE(CopyNow(kIn, there).ok());
  ASSERT_EQ(CopyNow(kOut, back), absl::OkStatus());
  EXPECT_EQ(out, (std::vector<std::byte>{std::byte{7}, std::byte{0}}));
}

TEST_F(EmulatedDeviceTest, ALostDeviceFailsWhatRunsWaitsAndComes) {
  std::vector<std::byte> host(kMiB);
  const CopySegment segment = {0, host.data(), kMiB};
  std::vector<Ending> endings(3);
  device_.Stall(kOut);
  Start(kIn, segment, &endings[0]);   // Runs.
  Start(kIn, segment, &endings[1]);   // Waits its turn.
  Start(kOut, segment, &endings[2]);  // Stalls.
  const absl::Time lost = executor_.Now() + absl::Microseconds(1);
  time_.RunUntil(lost);
  device_.Lose();
  RunToTheEnd();
  for (const Ending& ending : endings) {
    ASSERT_TRUE(ending.status.has_value());
    EXPECT_EQ(ending.status->code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(ending.when, lost) << "nobody waits for a link that is gone";
  }
  EXPECT_EQ(CopyNow(kIn, {&segment, 1}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_.CreateRegion(kMiB).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(device_.Pin(host).code(), absl::StatusCode::kUnavailable);
}

TEST_F(EmulatedDeviceTest, SegmentsOutsideTheRegionAreInvalid) {
  std::byte byte{};
  const std::vector<CopySegment> wrong = {
      {0, &byte, 0},
      {kRegionBytes, &byte, 1},
      {kRegionBytes - 1, &byte, 2},
      {0, &byte, kRegionBytes + 1},
      {~uint64_t{0}, &byte, 2},
      {1, &byte, ~uint64_t{0}},
  };
  for (const CopySegment& segment : wrong) {
    EXPECT_EQ(CopyNow(kIn, {&segment, 1}).code(), absl::StatusCode::kInvalidArgument)
        << segment.device_offset << " + " << segment.bytes;
  }
  const CopySegment last = {kRegionBytes - 1, &byte, 1};
  EXPECT_EQ(CopyNow(kIn, {&last, 1}), absl::OkStatus());
}

TEST_F(EmulatedDeviceTest, ABatchHoldsOnlySoManySegments) {
  std::byte byte{};
  std::vector<CopySegment> segments(kMaxCopySegments, CopySegment{0, &byte, 1});
  EXPECT_EQ(CopyNow(kOut, segments), absl::OkStatus());
  segments.push_back(segments.back());
  EXPECT_EQ(CopyNow(kOut, segments).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyNow(kOut, {}), absl::OkStatus());
}

TEST_F(EmulatedDeviceTest, ADestroyedWaiterLeavesTheLineInOrder) {
  std::vector<std::byte> host(kMiB);
  const CopySegment segment = {0, host.data(), kMiB};
  Ending first;
  Ending gone;
  Ending last;
  const absl::Time start = executor_.Now();
  Start(kIn, segment, &first);
  auto doomed = std::make_unique<TaskScope>(&executor_);
  doomed->Spawn(Record(&executor_, device_.Copy(kIn, region_.get(), {&segment, 1}), &gone));
  Start(kIn, segment, &last);
  doomed.reset();
  RunToTheEnd();
  EXPECT_FALSE(gone.status.has_value());
  EXPECT_EQ(first.when - start, Predicted(1, kMiB));
  EXPECT_EQ(last.when - start, 2 * Predicted(1, kMiB)) << "not beside the first";
}

TEST_F(EmulatedDeviceTest, ARegionCannotBeTruncated) {
  EXPECT_EQ(region_->bytes(), kRegionBytes);
  EXPECT_NE(ftruncate(region_->fd(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(EmulatedDeviceTest, ARegionThatCannotBeHadIsResourceExhausted) {
  const auto region = device_.CreateRegion(uint64_t{1} << 60);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
}

Task<void> PingPong(EmulatedDevice* device, DeviceRegion* region, uint64_t offset, int* wrong) {
  constexpr int kRounds = 50;
  std::vector<std::byte> out(4096);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::byte> in(4096, static_cast<std::byte>(offset / 4096 + round));
    const CopySegment there = {offset, in.data(), in.size()};
    const CopySegment back = {offset, out.data(), out.size()};
    const absl::Status went = co_await device->Copy(kIn, region, {&there, 1});
    const absl::Status came = co_await device->Copy(kOut, region, {&back, 1});
    if (!went.ok() || !came.ok() || in != out) ++*wrong;
  }
}

TEST(EmulatedDeviceOnThreadsTest, ManyCopiesAtOnceKeepTheirBytes) {
  constexpr uint64_t kFlows = 32;
  ThreadExecutor executor("test");
  BytePool workers(&executor, "bytes", 2);
  EmulatedDevice device(&executor, &workers, {.link = LinkModel::Instant()});
  const std::unique_ptr<DeviceRegion> region = *device.CreateRegion(kFlows * 4096);
  TaskScope scope(&executor);
  int wrong = 0;
  absl::Notification idle;
  const auto watch = [](TaskScope* scope, Executor* executor,
                        absl::Notification* idle) -> Task<void> {
    while (scope->running() > 1) {
      co_await SleepUntil(executor, executor->Now() + absl::Milliseconds(1));
    }
    idle->Notify();
  };
  executor.Post([&] {
    for (uint64_t i = 0; i < kFlows; ++i) {
      scope.Spawn(PingPong(&device, region.get(), i * 4096, &wrong));
    }
    scope.Spawn(watch(&scope, &executor, &idle));
  });
  EXPECT_TRUE(idle.WaitForNotificationWithTimeout(absl::Seconds(60)));
  executor.Stop();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace kvtier
