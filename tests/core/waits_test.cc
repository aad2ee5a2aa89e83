#include "core/waits.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "core/task.h"
#include "core/task_scope.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

class WaitsTest : public ::testing::Test {
 protected:
  Task<void> Wait(absl::Duration timeout, std::optional<bool>* set) {
    *set = co_await waits_.Until(&event_, executor_.Now() + timeout);
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  Event event_{&executor_};
  Waits waits_{&executor_};
  std::optional<bool> first_, second_;
  TaskScope scope_{&executor_};
};

TEST_F(WaitsTest, AWaitEndsWithItsEventOrAtItsDeadline) {
  scope_.Spawn(Wait(absl::Seconds(1), &first_));
  scope_.Spawn(Wait(absl::Seconds(3), &second_));
  time_.RunUntil(time_.Now() + absl::Seconds(2));
  EXPECT_EQ(first_, false);
  EXPECT_EQ(second_, std::nullopt);
  event_.Set();
  time_.RunUntil(time_.Now());
  EXPECT_EQ(second_, true);
}

TEST_F(WaitsTest, AllEndBeforeTheirDeadlinesWhenTheyAreEnded) {
  scope_.Spawn(Wait(absl::Seconds(1), &first_));
  scope_.Spawn(Wait(absl::InfiniteDuration(), &second_));
  waits_.End();
  EXPECT_EQ(first_, std::nullopt) << "End() runs nobody else's code";
  time_.RunUntil(time_.Now());
  EXPECT_EQ(first_, false);
  EXPECT_EQ(second_, false);
}

TEST_F(WaitsTest, NoneBeginsBehindTheEnd) {
  waits_.End();
  scope_.Spawn(Wait(absl::Seconds(1), &first_));
  EXPECT_EQ(first_, false);
  event_.Set();
  scope_.Spawn(Wait(absl::Seconds(1), &second_));
  EXPECT_EQ(second_, true);
}

TEST_F(WaitsTest, AnEventOfTheSameMomentCounts) {
  scope_.Spawn(Wait(absl::Seconds(1), &first_));
  waits_.End();
  event_.Set();
  time_.RunUntil(time_.Now() + absl::Seconds(2));
  EXPECT_EQ(first_, true);
}

TEST_F(WaitsTest, WhoWaitsMayBeDestroyed) {
  auto doomed = std::make_unique<TaskScope>(&executor_);
  doomed->Spawn(Wait(absl::Seconds(1), &first_));
  waits_.End();
  doomed.reset();
  time_.RunUntil(time_.Now() + absl::Seconds(2));
  EXPECT_EQ(first_, std::nullopt);
}

}  // namespace
}  // namespace kvtier
