#include "tier_gpu/lane_runner.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tests/testing/sim_executor.h"
#include "tests/tier_gpu/emulated_rig.h"

namespace kvtier {
namespace {

// Status and time with which one copy ended.
struct Ending {
  std::optional<absl::Status> status;
  absl::Time when;
};

class LaneRunnerTest : public ::testing::Test {
 protected:
  using Urgency = CopyUrgency;

  static Task<void> Record(Executor* executor, Task<absl::Status> copy, Ending* ending) {
    ending->status = co_await copy;
    ending->when = executor->Now();
  }
  // Makes a copy of one batch for each block, from host block i to slot i or back.
  LaneRunner::Copy CopyOf(CopyDirection direction, size_t first, size_t blocks,
                          Urgency urgency = Urgency::kForeground) {
    LaneRunner::Copy copy{.direction = direction, .urgency = urgency, .region = rig_.region()};
    for (size_t i = first; i < first + blocks; ++i) {
      copy.batches.emplace_back().segments = {rig_.Block(i, i)};
    }
    return copy;
  }
  void Start(LaneRunner::Copy copy, Ending* ending) {
    scope_.Spawn(Record(&executor_, runner_.Run(std::move(copy)), ending));
  }
  void Pass(absl::Duration duration) { rig_.Pass(duration); }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  EmulatedRig rig_{&time_};
  LaneRunner runner_{&rig_.device(), &executor_, &executor_};
  // Last member, so that its tasks are destroyed before what they use.
  TaskScope scope_{&executor_};
};

TEST_F(LaneRunnerTest, ACopyEndsWhenAllItsBytesHaveArrived) {
  for (size_t i = 0; i < 10; ++i) rig_.host(i)[0] = std::byte{1};
  Ending ending;
  Start(CopyOf(kIn, 0, 10), &ending);
  EXPECT_FALSE(ending.status.has_value());
  Pass(absl::Seconds(1));
  EXPECT_EQ(ending.status, absl::OkStatus());
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(rig_.slot(i)[0], std::byte{1});
}

TEST_F(LaneRunnerTest, TheLinkIsNeverIdleBetweenBatches) {
  Ending ending;
  const absl::Time start = executor_.Now();
  Start(CopyOf(kIn, 0, 100), &ending);
  Pass(absl::Seconds(1));
  const CopyShape one = {.direction = kIn, .segments = 1, .bytes = kRigBlock};
  EXPECT_EQ(ending.when - start, 100 * LinkModel::Pcie5().Predict(one));
}

TEST_F(LaneRunnerTest, ForegroundWaitsForWhatIsInTheDeviceOnly) {
  Ending background;
  Ending foreground;
  const absl::Time start = executor_.Now();
  Start(CopyOf(kIn, 0, 100, Urgency::kBackground), &background);
  Pass(absl::ZeroDuration());
  Start(CopyOf(kIn, 200, 1), &foreground);
  Pass(absl::Seconds(1));
  const CopyShape one = {.direction = kIn, .segments = 1, .bytes = kRigBlock};
  EXPECT_EQ(foreground.when - start,
            static_cast<int64_t>(kMaxBatchesInFlight + 1) * LinkModel::Pcie5().Predict(one));
  EXPECT_GT(background.when, foreground.when);
}

TEST_F(LaneRunnerTest, MarksOrderACopyBehindAWordAndAWordBehindACopy) {
  LaneRunner::Copy copy = CopyOf(kOut, 0, 2);
  copy.batches[0].after = {.word = rig_.word(0), .value = 3};
  copy.batches[1].before = {.word = rig_.word(1), .value = 7};
  Ending ending;
  rig_.slot(0)[0] = std::byte{1};
  Start(std::move(copy), &ending);
  Pass(absl::Seconds(1));
  EXPECT_FALSE(ending.status.has_value());
  rig_.slot(0)[0] = std::byte{2};
  rig_.device().Raise(rig_.word(0), 3);
  Pass(absl::Seconds(1));
  EXPECT_EQ(ending.status, absl::OkStatus());
  EXPECT_EQ(rig_.host(0)[0], std::byte{2});
  EXPECT_TRUE(rig_.device().Reached(*rig_.word(1), 7));
}

TEST_F(LaneRunnerTest, AFailedBatchFailsItsCopyAndNoOther) {
  Ending first;
  Ending second;
  rig_.device().FailCopy(kIn, 2);
  Start(CopyOf(kIn, 0, 3), &first);
  Start(CopyOf(kIn, 10, 3), &second);
  Pass(absl::Seconds(1));
  ASSERT_TRUE(first.status.has_value());
  EXPECT_EQ(first.status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.status, absl::OkStatus());
}

TEST_F(LaneRunnerTest, AMarkIsHandedOverWithItsBatchAndAheadOfItsBytes) {
  LaneRunner::Copy copy = CopyOf(kIn, 0, 20);
  size_t handed_over = 0;
  for (size_t i = 0; i < 20; ++i) {
    copy.batches[i].before = {.word = rig_.word(0),
                              .value = i + 1,
                              .handed_over = [&handed_over, i] { EXPECT_EQ(handed_over++, i); }};
  }
  rig_.device().FailCopy(kIn, 10);
  rig_.device().Stall(Lane::kOnboard);
  Ending ending;
  Start(std::move(copy), &ending);
  Pass(absl::ZeroDuration());
  EXPECT_EQ(handed_over, kMaxBatchesInFlight);
  EXPECT_EQ(rig_.word(0)->load(), 0U);
  rig_.device().Resume(Lane::kOnboard);
  Pass(absl::Seconds(1));
  ASSERT_TRUE(ending.status.has_value());
  EXPECT_GE(handed_over, 10U);
  EXPECT_LT(handed_over, 20U) << "what is behind the failure is not submitted";
}

// In a layer-wise copy, a mark after the failure would say that the failed layers are there.
TEST_F(LaneRunnerTest, NoMarkIsWrittenBehindTheFailureOfItsCopy) {
  LaneRunner::Copy copy = CopyOf(kIn, 0, 20);
  for (size_t i = 0; i < 20; ++i) copy.batches[i].before = {.word = rig_.word(0), .value = i + 1};
  Ending ending;
  rig_.device().FailCopy(kIn, 3);
  Start(std::move(copy), &ending);
  Pass(absl::Seconds(1));
  ASSERT_TRUE(ending.status.has_value());
  EXPECT_EQ(ending.status->code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.word(0)->load(), 2U);
}

TEST_F(LaneRunnerTest, WhatEndsOnTheComputeLaneIsNoCopys) {
  Ending ending;
  ASSERT_TRUE(rig_.device().Launch({.run = absl::Microseconds(1)}).ok());
  Start(CopyOf(kIn, 0, 3), &ending);
  Pass(absl::Seconds(1));
  EXPECT_EQ(ending.status, absl::OkStatus());
}

TEST_F(LaneRunnerTest, ABatchTheDeviceRefusesFailsItsCopyAndNoOther) {
  Ending wrong;
  Ending right;
  LaneRunner::Copy copy = CopyOf(kIn, 0, 2);
  copy.batches[1].after = {.word = rig_.word(0), .value = 0};
  copy.batches[1].segments[0].bytes = 0;
  Start(std::move(copy), &wrong);
  Start(CopyOf(kIn, 10, 3), &right);
  Pass(absl::Seconds(1));
  ASSERT_TRUE(wrong.status.has_value());
  EXPECT_EQ(wrong.status->code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(right.status, absl::OkStatus());
}

TEST_F(LaneRunnerTest, ALostDeviceEndsEverythingSoon) {
  std::vector<Ending> endings(3);
  rig_.device().Stall(Lane::kOnboard);
  for (Ending& ending : endings) Start(CopyOf(kIn, 0, 5), &ending);
  Pass(absl::Seconds(1));
  rig_.device().Lose();
  Pass(absl::Milliseconds(1));
  for (const Ending& ending : endings) {
    ASSERT_TRUE(ending.status.has_value());
    EXPECT_EQ(ending.status->code(), absl::StatusCode::kUnavailable);
  }
}

// The slots of an abandoned copy may be read and written as long as the process lives. The caller
// has to keep them, so it must learn of that even if another batch of the copy failed first.
TEST_F(LaneRunnerTest, ACopyIsAbandonedIfTheDeviceHadAnyOfIt) {
  Ending begun;
  Ending waiting;
  rig_.device().FailCopy(kIn, 1);
  rig_.device().LoseInCopy(kIn, 2);
  Start(CopyOf(kIn, 0, 2), &begun);
  Start(CopyOf(kIn, 5, 4), &waiting);
  Pass(absl::Seconds(1));
  ASSERT_TRUE(begun.status.has_value() && waiting.status.has_value());
  EXPECT_TRUE(IsAbandoned(*begun.status));
  EXPECT_TRUE(IsAbandoned(*waiting.status)) << "its first batch was in the lane";
  Ending refused;
  Start(CopyOf(kIn, 0, 1), &refused);
  Pass(absl::Seconds(1));
  EXPECT_EQ(refused.status->code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(IsAbandoned(*refused.status));
}

TEST_F(LaneRunnerTest, MoreBatchesThanMayBeQueuedWaitTheirTurn) {
  Ending all;
  Ending more;
  Ending other;
  rig_.device().Stall(Lane::kOnboard);
  LaneRunner::Copy many{.direction = kIn, .region = rig_.region()};
  many.batches.assign(2 * kMaxQueuedBatches + 1, {.segments = {rig_.Block(0, 0)}});
  Start(std::move(many), &all);
  Start(CopyOf(kIn, 1, 1), &more);
  Start(CopyOf(kOut, 2, 1), &other);
  Pass(absl::Seconds(1));
  EXPECT_FALSE(all.status.has_value() || more.status.has_value());
  EXPECT_EQ(other.status, absl::OkStatus());
  rig_.device().Resume(Lane::kOnboard);
  Pass(absl::Seconds(1));
  EXPECT_EQ(all.status, absl::OkStatus());
  EXPECT_EQ(more.status, absl::OkStatus());
  EXPECT_LT(all.when, more.when);
}

TEST_F(LaneRunnerTest, ALongCopyEndsWithItsDeviceAndSoDoesWhatWaitedBehindIt) {
  Ending all;
  Ending more;
  LaneRunner::Copy many{.direction = kIn, .region = rig_.region()};
  many.batches.assign(2 * kMaxQueuedBatches, {.segments = {rig_.Block(0, 0)}});
  Start(std::move(many), &all);
  Start(CopyOf(kIn, 1, 1), &more);
  rig_.device().Lose();
  Pass(absl::Seconds(1));
  for (const Ending& ending : {all, more}) {
    ASSERT_TRUE(ending.status.has_value());
    EXPECT_EQ(ending.status->code(), absl::StatusCode::kUnavailable);
  }
}

TEST_F(LaneRunnerTest, ACopyWhoseTaskIsGoneStillRuns) {
  rig_.host(0)[0] = std::byte{5};
  auto doomed = std::make_unique<TaskScope>(&executor_);
  Ending ending;
  doomed->Spawn(Record(&executor_, runner_.Run(CopyOf(kIn, 0, 1)), &ending));
  doomed.reset();
  Pass(absl::Seconds(1));
  EXPECT_FALSE(ending.status.has_value());
  EXPECT_EQ(rig_.slot(0)[0], std::byte{5});
}

TEST_F(LaneRunnerTest, NothingToCopyEndsAtOnce) {
  Ending ending;
  Start({.direction = kIn, .region = rig_.region()}, &ending);
  EXPECT_EQ(ending.status, absl::OkStatus());
}

Task<void> PingPong(LaneRunner* runner, DeviceRegion* region, std::span<std::byte> in,
                    std::span<std::byte> out, uint64_t offset, int* wrong) {
  constexpr int kRounds = 50;
  for (int round = 0; round < kRounds; ++round) {
    std::ranges::fill(in, static_cast<std::byte>(offset / in.size() + round));
    LaneRunner::Copy there{.direction = kIn, .region = region};
    there.batches.emplace_back().segments = {{offset, in.data(), in.size()}};
    LaneRunner::Copy back{.direction = kOut, .region = region};
    back.batches.emplace_back().segments = {{offset, out.data(), out.size()}};
    const absl::Status went = co_await runner->Run(std::move(there));
    const absl::Status came = co_await runner->Run(std::move(back));
    if (!went.ok() || !came.ok() || !std::ranges::equal(in, out)) ++*wrong;
  }
}

// Adds and removes handles after the first.
Task<void> GrowAndShrink(LaneRunner* runner, DeviceRegion* region, int* failed) {
  for (int round = 0; round < 20; ++round) {
    absl::AnyInvocable<void()> grow = [region, failed] {
      while (region->handles() < 3) *failed += region->Grow().ok() ? 0 : 1;
    };
    co_await runner->RunBetweenPolls(std::move(grow));
    absl::AnyInvocable<void()> shrink = [region] {
      while (region->handles() > 1) region->Shrink();
    };
    co_await runner->RunBetweenPolls(std::move(shrink));
  }
}

TEST(LaneRunnerOnThreadsTest, ManyCopiesAtOnceKeepTheirBytesWhileTheRegionChanges) {
  constexpr uint64_t kFlows = 32;
  constexpr uint64_t kBytes = 4096;
  ThreadExecutor flows("test");
  ThreadExecutor lanes("test-lanes");
  std::vector<std::byte> host(2 * kFlows * kBytes);
  EmulatedDevice device(&lanes, {.link = LinkModel::Instant()});
  ASSERT_TRUE(device.Pin(host).ok());
  const auto region =
      *device.CreateRegion({.handle_bytes = kRegionGranularity, .max_handles = 3}, 1);
  LaneRunner runner(&device, &flows, &lanes);
  TaskScope scope(&flows);
  int wrong = 0;
  int failed = 0;
  absl::Notification idle;
  const auto watch = [](TaskScope* scope, Executor* executor,
                        absl::Notification* idle) -> Task<void> {
    while (scope->running() > 1) {
      co_await SleepUntil(executor, executor->Now() + absl::Milliseconds(1));
    }
    idle->Notify();
  };
  flows.Post([&] {
    for (uint64_t i = 0; i < kFlows; ++i) {
      const auto mine = std::span(host).subspan(2 * i * kBytes, 2 * kBytes);
      scope.Spawn(PingPong(&runner, region.get(), mine.first(kBytes), mine.last(kBytes), i * kBytes,
                           &wrong));
    }
    scope.Spawn(GrowAndShrink(&runner, region.get(), &failed));
    scope.Spawn(watch(&scope, &flows, &idle));
  });
  EXPECT_TRUE(idle.WaitForNotificationWithTimeout(absl::Seconds(60)));
  flows.Stop();
  lanes.Stop();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace kvtier
