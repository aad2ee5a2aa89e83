#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/test_seed.h"
#include "tier_gpu/plan/lane_schedule.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr auto kForeground = CopyUrgency::kForeground;
constexpr auto kBackground = CopyUrgency::kBackground;

class LaneScheduleTest : public ::testing::Test {
 protected:
  ~LaneScheduleTest() override { schedule_.Audit(); }
  ScheduledBatch Add(CopyDirection direction, CopyUrgency urgency) {
    const ScheduledBatch batch = {.direction = direction, .urgency = urgency, .batch = ++last_};
    EXPECT_EQ(schedule_.Add(batch), absl::OkStatus());
    return batch;
  }
  // Submits the next batch, which ends at once.
  std::optional<ScheduledBatch> Pass(CopyDirection direction) {
    const std::optional<ScheduledBatch> next = schedule_.Next(direction);
    if (next.has_value()) schedule_.Done(*next);
    return next;
  }

  LaneSchedule schedule_;
  uint64_t last_ = 0;
};

TEST_F(LaneScheduleTest, BatchesOfOneUrgencyGoInTheirOrder) {
  const ScheduledBatch first = Add(kIn, kForeground);
  const ScheduledBatch second = Add(kIn, kForeground);
  EXPECT_EQ(Pass(kIn), first);
  EXPECT_EQ(Pass(kIn), second);
  EXPECT_EQ(Pass(kIn), std::nullopt);
}

TEST_F(LaneScheduleTest, NoMoreRunInADirectionThanAreInFlight) {
  const ScheduledBatch first = Add(kIn, kForeground);
  for (size_t i = 0; i < kMaxBatchesInFlight; ++i) Add(kIn, kForeground);
  const ScheduledBatch out = Add(kOut, kForeground);
  for (size_t i = 0; i < kMaxBatchesInFlight; ++i) {
    EXPECT_TRUE(schedule_.Next(kIn).has_value());
  }
  EXPECT_EQ(schedule_.Next(kIn), std::nullopt);
  EXPECT_EQ(schedule_.running(kIn), kMaxBatchesInFlight);
  EXPECT_EQ(schedule_.Next(kOut), out) << "the other direction has its own";
  schedule_.Done(first);
  EXPECT_TRUE(schedule_.Next(kIn).has_value());
}

TEST_F(LaneScheduleTest, ForegroundGoesAheadOfBackground) {
  const ScheduledBatch background = Add(kIn, kBackground);
  const ScheduledBatch foreground = Add(kIn, kForeground);
  EXPECT_EQ(Pass(kIn), foreground);
  EXPECT_EQ(Pass(kIn), background);
}

TEST_F(LaneScheduleTest, BackgroundYieldsToForegroundOfTheOtherDirection) {
  const ScheduledBatch offload = Add(kOut, kBackground);
  const ScheduledBatch onboard = Add(kIn, kForeground);
  EXPECT_EQ(schedule_.Next(kOut), std::nullopt) << "an onboard waits";
  EXPECT_EQ(schedule_.Next(kIn), onboard);
  EXPECT_EQ(schedule_.Next(kOut), std::nullopt) << "an onboard runs";
  schedule_.Done(onboard);
  EXPECT_EQ(schedule_.Next(kOut), offload);
}

TEST_F(LaneScheduleTest, ForegroundYieldsToNobody) {
  Add(kOut, kBackground);
  Add(kOut, kForeground);
  Add(kIn, kForeground);
  EXPECT_EQ(Pass(kOut)->urgency, kForeground);
  EXPECT_EQ(Pass(kIn)->urgency, kForeground);
}

TEST_F(LaneScheduleTest, BackgroundIsPassedOverSoOftenAndThenGoes) {
  const ScheduledBatch background = Add(kIn, kBackground);
  for (uint32_t i = 0; i <= kMaxPassedOver; ++i) Add(kIn, kForeground);
  for (uint32_t i = 0; i < kMaxPassedOver; ++i) EXPECT_EQ(Pass(kIn)->urgency, kForeground);
  EXPECT_EQ(Pass(kIn), background);
  EXPECT_EQ(Pass(kIn)->urgency, kForeground);
}

TEST_F(LaneScheduleTest, AnOffloadIsPassedOverByOnboardsSoOftenAndThenGoes) {
  const ScheduledBatch first = Add(kOut, kBackground);
  Add(kOut, kBackground);
  for (uint32_t i = 0; i < 2 * kMaxPassedOver; ++i) Add(kIn, kForeground);
  for (uint32_t i = 0; i < kMaxPassedOver; ++i) {
    EXPECT_EQ(Pass(kOut), std::nullopt);
    EXPECT_EQ(Pass(kIn)->urgency, kForeground);
  }
  EXPECT_EQ(Pass(kOut), first);
  EXPECT_EQ(Pass(kOut), std::nullopt) << "the count begins again for the second";
}

TEST_F(LaneScheduleTest, AFullQueueRefusesAndNamesTheBatch) {
  for (size_t i = 0; i < kMaxQueuedBatches; ++i) Add(kIn, kBackground);
  const absl::Status status =
      schedule_.Add({.direction = kIn, .urgency = kBackground, .batch = 4711});
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr(
          "1024 background batches wait host to device, the most that may, so batch 4711 is"));
  Add(kIn, kForeground);
  Add(kOut, kBackground);
  EXPECT_EQ(Pass(kIn)->urgency, kForeground);
  EXPECT_EQ(Pass(kIn)->urgency, kBackground);
  Add(kIn, kBackground);
}

TEST_F(LaneScheduleTest, DoneOfWhatDoesNotRunAborts) {
  const ScheduledBatch batch = Add(kIn, kForeground);
  EXPECT_DEATH(schedule_.Done(batch), "CHECK failed");
}

// Runs random work: each batch is submitted once, in the order of its queue, with no more than
// kMaxBatchesInFlight at a time, and none waits past its bound.
TEST_F(LaneScheduleTest, NobodyIsLostAndNobodyStarves) {
  std::mt19937_64 random(testing::TestSeed());
  std::array<std::array<std::vector<uint64_t>, kCopyUrgencies>, kCopyDirections> queues;
  std::vector<ScheduledBatch> running;
  std::array<uint32_t, kCopyDirections> passed{};  // Count for the first in background.
  for (int i = 0; i < 200'000; ++i) {
    const auto direction = static_cast<CopyDirection>(random() % 2);
    const auto d = static_cast<size_t>(direction);
    if (random() % 3 == 0) {
      const auto urgency = static_cast<CopyUrgency>(random() % 4 == 0);
      auto& queue = queues[d][static_cast<size_t>(urgency)];
      if (queue.size() < 20) queue.push_back(Add(direction, urgency).batch);
    } else if (random() % 2 == 0 && !running.empty()) {
      std::swap(running[random() % running.size()], running.back());
      schedule_.Done(running.back());
      running.pop_back();
    } else if (const auto next = schedule_.Next(direction); next.has_value()) {
      auto& queue = queues[d][static_cast<size_t>(next->urgency)];
      ASSERT_FALSE(queue.empty());
      ASSERT_EQ(next->batch, queue.front());
      queue.erase(queue.begin());
      running.push_back(*next);
      if (next->urgency == kBackground) {
        passed[d] = 0;
      } else {
        for (size_t other = 0; other < passed.size(); ++other) {
          if (!queues[other][1].empty()) ++passed[other];
        }
        ASSERT_LE(queues[d][1].empty() ? 0 : passed[d], kMaxPassedOver);
      }
    } else {
      const bool waits = passed[d] >= kMaxPassedOver || !queues[d][0].empty();
      ASSERT_TRUE(schedule_.running(direction) == kMaxBatchesInFlight || !waits);
    }
    schedule_.Audit();
    ASSERT_LE(schedule_.running(direction), kMaxBatchesInFlight);
  }
}

}  // namespace
}  // namespace kvtier
