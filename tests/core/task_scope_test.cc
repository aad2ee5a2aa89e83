#include "core/task_scope.h"

#include <memory>
#include <string>
#include <utility>

#include "core/event.h"
#include "gtest/gtest.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

class TaskScopeTest : public ::testing::Test {
 protected:
  Task<void> Sleeps(absl::Duration how_long) {
    co_await SleepUntil(&executor_, executor_.Now() + how_long);
    ++ended_;
  }
  Task<void> StoreIdle(TaskScope* scope, absl::Time deadline) {
    idle_ = co_await scope->Idle(deadline);
  }
  void RunFor(absl::Duration how_long) { time_.RunUntil(time_.Now() + how_long); }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  int ended_ = 0;
  std::optional<bool> idle_;
  TaskScope watchers_{&executor_};  // Another scope than the one under test.
};

TEST_F(TaskScopeTest, RunsATaskUntilItFirstWaits) {
  TaskScope scope(&executor_);
  std::string log;
  const auto flow = [](Executor* executor, std::string* out) -> Task<void> {
    *out += "a";
    co_await SleepUntil(executor, executor->Now());
    *out += "b";
  };
  scope.Spawn(flow(&executor_, &log));
  EXPECT_EQ(log, "a");
  EXPECT_EQ(scope.running(), 1u);
  RunFor(absl::Seconds(1));
  EXPECT_EQ(log, "ab");
}

TEST_F(TaskScopeTest, ForgetsATaskThatEnded) {
  TaskScope scope(&executor_);
  const auto alive = std::make_shared<int>(1);
  const auto hold = [](std::shared_ptr<int>) -> Task<void> { co_return; };
  for (int i = 0; i < 3; ++i) scope.Spawn(hold(alive));
  EXPECT_EQ(scope.running(), 0u);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST_F(TaskScopeTest, TaskMaySpawnAnother) {
  TaskScope scope(&executor_);
  const auto spawns = [](TaskScope* on, Task<void> next) -> Task<void> {
    on->Spawn(std::move(next));
    co_return;
  };
  scope.Spawn(spawns(&scope, Sleeps(absl::Seconds(1))));
  RunFor(absl::Seconds(2));
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(scope.running(), 0u);
}

TEST_F(TaskScopeTest, IdleWaitsForTheLastTask) {
  TaskScope scope(&executor_);
  scope.Spawn(Sleeps(absl::Seconds(1)));
  scope.Spawn(Sleeps(absl::Seconds(2)));
  watchers_.Spawn(StoreIdle(&scope, absl::InfiniteFuture()));
  RunFor(absl::Milliseconds(1999));
  EXPECT_EQ(idle_, std::nullopt);
  RunFor(absl::Milliseconds(5));
  EXPECT_EQ(idle_, true);
  EXPECT_EQ(ended_, 2);
}

TEST_F(TaskScopeTest, IdleGivesUpAtItsDeadline) {
  TaskScope scope(&executor_);
  scope.Spawn(Sleeps(absl::Hours(1)));
  watchers_.Spawn(StoreIdle(&scope, time_.Now() + absl::Seconds(1)));
  RunFor(absl::Seconds(2));
  EXPECT_EQ(idle_, false);
}

TEST_F(TaskScopeTest, IdleOfAnEmptyScopeIsTrueAtOnce) {
  TaskScope scope(&executor_);
  watchers_.Spawn(StoreIdle(&scope, time_.Now()));
  EXPECT_EQ(idle_, true);
}

// Farewell writes its name to `log` when its frame ends. The outermost frame ends last.
struct Farewell {
  std::string* log;
  std::string name;
  ~Farewell() { *log += name; }
};

Task<void> Inner(Executor* executor, std::string* log) {
  const Farewell farewell{log, "inner "};
  co_await SleepUntil(executor, executor->Now() + absl::Hours(1));
  *log += "never ";
}

Task<void> Outer(Executor* executor, std::string* log) {
  const Farewell farewell{log, "outer "};
  co_await Inner(executor, log);
  *log += "never ";
}

TEST_F(TaskScopeTest, DestroyingItDestroysSuspendedFramesInnermostFirst) {
  std::string log;
  auto scope = std::make_unique<TaskScope>(&executor_);
  scope->Spawn(Outer(&executor_, &log));
  EXPECT_EQ(log, "");
  scope.reset();
  EXPECT_EQ(log, "inner outer ");
  EXPECT_FALSE(time_.Step());  // The task's timer is gone, too.
}

TEST_F(TaskScopeTest, ATaskThatEndedLeavesNothingBehind) {
  auto scope = std::make_unique<TaskScope>(&executor_);
  scope->Spawn(Sleeps(absl::Seconds(1)));
  while (ended_ == 0) ASSERT_TRUE(time_.Step());
  EXPECT_EQ(scope->running(), 0u);
  EXPECT_FALSE(time_.Step());
  scope.reset();
}

Task<void> Nest(Executor* executor, int levels) {
  if (levels > 0) {
    co_await Nest(executor, levels - 1);
  } else {
    co_await SleepUntil(executor, absl::InfiniteFuture());
  }
}

TEST_F(TaskScopeTest, DestroysAThousandNestedFrames) {
  TaskScope scope(&executor_);
  scope.Spawn(Nest(&executor_, 1000));
  EXPECT_EQ(scope.running(), 1u);
}

}  // namespace
}  // namespace kvtier
