#include "core/task.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/event.h"
#include "core/status_macros.h"
#include "core/task_scope.h"
#include "gtest/gtest.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

Task<int> Just(int value) { co_return value; }

Task<void> Append(std::string* out, std::string text) {
  *out += text;
  co_return;
}

// Runs `task`, which never waits, and returns its value.
template <typename T>
T RunNow(Task<T> task) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  TaskScope scope(&executor);
  std::optional<T> result;
  const auto store = [](Task<T> inner, std::optional<T>* out) -> Task<void> {
    out->emplace(co_await inner);
  };
  scope.Spawn(store(std::move(task), &result));
  EXPECT_TRUE(result.has_value());
  return *std::move(result);
}

Task<int> SumOfTwo() {
  const int first = co_await Just(2);
  const int second = co_await Just(3);
  co_return first + second;
}

TEST(Task, YieldsItsValueToTheAwaiter) { EXPECT_EQ(RunNow(SumOfTwo()), 5); }

Task<std::unique_ptr<int>> MakeMoveOnly() { co_return std::make_unique<int>(7); }
Task<int> UseMoveOnly() {
  const std::unique_ptr<int> made = co_await MakeMoveOnly();
  co_return *made;
}

TEST(Task, YieldsMoveOnlyValues) { EXPECT_EQ(RunNow(UseMoveOnly()), 7); }

Task<int> InOrder(std::string* out) {
  co_await Append(out, "a");
  Task<void> lazy = Append(out, "c");
  co_await Append(out, "b");
  co_await lazy;
  co_return 0;
}

TEST(Task, StartsWhenAwaitedAndNotBefore) {
  std::string out;
  Task<int> task = InOrder(&out);
  EXPECT_EQ(out, "");
  RunNow(std::move(task));
  EXPECT_EQ(out, "abc");
}

Task<absl::StatusOr<int>> HalfOf(int value) {
  if (value % 2 != 0) co_return absl::InvalidArgumentError("odd");
  co_return value / 2;
}
Task<absl::StatusOr<int>> QuarterOf(int value) {
  KVT_CO_ASSIGN_OR_RETURN(const int half, co_await HalfOf(value));
  KVT_CO_RETURN_IF_ERROR(half > 100 ? absl::OutOfRangeError("large") : absl::OkStatus());
  co_return co_await HalfOf(half);
}

TEST(Task, CarriesAStatusOutEarly) {
  EXPECT_EQ(*RunNow(QuarterOf(12)), 3);
  EXPECT_EQ(RunNow(QuarterOf(7)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunNow(QuarterOf(6)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunNow(QuarterOf(400)).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(Task, FreesItsArgumentsWhenDestroyedUnstarted) {
  const auto alive = std::make_shared<int>(1);
  const auto hold = [](std::shared_ptr<int>) -> Task<void> { co_return; };
  {
    const Task<void> task = hold(alive);
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(Task, AssignmentDestroysWhatItReplaces) {
  const auto alive = std::make_shared<int>(1);
  const auto hold = [](std::shared_ptr<int>) -> Task<void> { co_return; };
  Task<void> task = hold(alive);
  task = hold(alive);
  EXPECT_EQ(alive.use_count(), 2);
  task = Task<void>();
  EXPECT_EQ(alive.use_count(), 1);
}

// StackDepth measures how far down the stack the flow has been, relative to the first look.
class StackDepth {
 public:
  void Look() {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if (top_ == 0) top_ = here;
    deepest_ = std::max(deepest_, top_ > here ? top_ - here : here - top_);
  }
  uintptr_t bytes() const { return deepest_; }

 private:
  uintptr_t top_ = 0;
  uintptr_t deepest_ = 0;
};

Task<int> LookAndAdd(StackDepth* depth, int value) {
  depth->Look();
  co_return value + 1;
}

Task<int> LoopOfAwaits(StackDepth* depth, int rounds) {
  int value = 0;
  for (int i = 0; i < rounds; ++i) value = co_await LookAndAdd(depth, value);
  co_return value;
}

TEST(Task, LoopOfTenThousandAwaitsDoesNotGrowTheStack) {
  StackDepth depth;
  EXPECT_EQ(RunNow(LoopOfAwaits(&depth, 10'000)), 10'000);
  EXPECT_LT(depth.bytes(), 4096u);
}

Task<int> Nest(StackDepth* depth, int levels) {
  depth->Look();
  if (levels == 0) co_return 0;
  const int below = co_await Nest(depth, levels - 1);
  depth->Look();
  co_return below + 1;
}

TEST(Task, ThousandNestedTasksEnd) {
  StackDepth depth;
  EXPECT_EQ(RunNow(Nest(&depth, 1000)), 1000);
  EXPECT_LT(depth.bytes(), 2u << 20);
}

// Runs the loop after a wait: the executor then resumes the awaiter, instead of starting it.
Task<int> WaitThenLoop(Executor* executor, StackDepth* depth, int rounds) {
  co_await SleepUntil(executor, executor->Now());
  co_return co_await LoopOfAwaits(depth, rounds);
}

TEST(Task, LoopOfAwaitsAfterAWaitDoesNotGrowTheStackEither) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  TaskScope scope(&executor);
  StackDepth depth;
  int result = 0;
  const auto store = [](Task<int> inner, int* out) -> Task<void> { *out = co_await inner; };
  scope.Spawn(store(WaitThenLoop(&executor, &depth, 10'000), &result));
  EXPECT_EQ(result, 0);
  time.RunUntil(time.Now());
  EXPECT_EQ(result, 10'000);
  EXPECT_LT(depth.bytes(), 4096u);
}

}  // namespace
}  // namespace kvtier
