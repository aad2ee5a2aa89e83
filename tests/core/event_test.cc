#include "core/event.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/task.h"
#include "core/task_scope.h"
#include "gtest/gtest.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

class EventTest : public ::testing::Test {
 protected:
  // Waits for the event and writes "<name>+" when it was set, "<name>-" when not.
  Task<void> Waits(std::string name, absl::Time deadline) {
    const bool set = co_await event_.WaitUntil(deadline);
    log_ += name + (set ? "+" : "-");
  }
  Task<void> Sleeps(std::string name, absl::Time when) {
    co_await SleepUntil(&executor_, when);
    log_ += name;
  }
  absl::Time After(int seconds) const { return start_ + absl::Seconds(seconds); }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  const absl::Time start_ = time_.Now();
  Event event_{&executor_};
  std::string log_;
  TaskScope scope_{&executor_};
};

TEST_F(EventTest, WakesItsWaitersLaterInTheOrderTheyCame) {
  scope_.Spawn(Waits("a", absl::InfiniteFuture()));
  scope_.Spawn(Waits("b", After(5)));
  scope_.Spawn(Waits("c", absl::InfiniteFuture()));
  event_.Set();
  EXPECT_EQ(log_, "");  // Set() runs nobody else's code.
  time_.RunUntil(start_);
  EXPECT_EQ(log_, "a+b+c+");
}

TEST_F(EventTest, StaysSet) {
  event_.Set();
  event_.Set();
  EXPECT_TRUE(event_.is_set());
  scope_.Spawn(Waits("a", After(1)));
  scope_.Spawn(Waits("past", After(-1)));
  EXPECT_EQ(log_, "a+past+");
}

TEST_F(EventTest, EachWaiterGivesUpAtItsOwnDeadline) {
  scope_.Spawn(Waits("c", After(3)));
  scope_.Spawn(Waits("a", After(1)));
  scope_.Spawn(Waits("past", After(0)));
  EXPECT_EQ(log_, "past-");
  time_.RunUntil(After(2));
  EXPECT_EQ(log_, "past-a-");
  event_.Set();
  time_.RunUntil(After(9));
  EXPECT_EQ(log_, "past-a-c+");
}

TEST_F(EventTest, SetBeforeTheDeadlineAtTheSameInstantWins) {
  executor_.PostAt(After(1), [this] { event_.Set(); });
  scope_.Spawn(Waits("a", After(1)));
  time_.RunUntil(After(1));
  EXPECT_EQ(log_, "a+");
}

TEST_F(EventTest, DeadlineBeforeTheSetAtTheSameInstantWins) {
  scope_.Spawn(Waits("a", After(1)));
  executor_.PostAt(After(1), [this] { event_.Set(); });
  time_.RunUntil(After(1));
  EXPECT_EQ(log_, "a-");
}

// A deadline that passes does not undo an earlier Set() whose waiter has not run yet.
TEST_F(EventTest, SetWinsOverALaterDeadlineAtTheSameInstant) {
  scope_.Spawn(Waits("a", After(1)));
  time_.RunUntil(After(1) - absl::Nanoseconds(1));
  event_.Set();
  time_.RunUntil(After(2));
  EXPECT_EQ(log_, "a+");
}

TEST_F(EventTest, WaiterDestroyedWhileSuspendedIsForgotten) {
  auto doomed = std::make_unique<TaskScope>(&executor_);
  doomed->Spawn(Waits("doomed", After(1)));
  scope_.Spawn(Waits("a", absl::InfiniteFuture()));
  doomed.reset();
  event_.Set();
  time_.RunUntil(After(2));
  EXPECT_EQ(log_, "a+");
}

// Regression: the resumption of a waiter was posted and could not be taken back, so it resumed a
// frame that was gone.
TEST_F(EventTest, WaiterDestroyedBetweenSetAndItsResumptionIsForgotten) {
  auto doomed = std::make_unique<TaskScope>(&executor_);
  doomed->Spawn(Waits("doomed", After(1)));
  event_.Set();
  doomed.reset();
  time_.RunUntil(After(2));
  EXPECT_EQ(log_, "");
}

TEST_F(EventTest, WaiterMayDestroyAnotherWhenItWakes) {
  auto doomed = std::make_unique<TaskScope>(&executor_);
  const auto destroys = [](Event* event, std::unique_ptr<TaskScope>* other) -> Task<void> {
    co_await event->WaitUntil(absl::InfiniteFuture());
    other->reset();
  };
  scope_.Spawn(destroys(&event_, &doomed));
  doomed->Spawn(Waits("doomed", absl::InfiniteFuture()));
  event_.Set();
  time_.RunUntil(start_);
  EXPECT_EQ(log_, "");
}

void DestroyWithWaiter() {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  TaskScope scope(&executor);
  auto event = std::make_unique<Event>(&executor);
  const auto waits = [](Event* on) -> Task<void> {
    co_await on->WaitUntil(absl::InfiniteFuture());
  };
  scope.Spawn(waits(event.get()));
  event.reset();
}

TEST(EventDeathTest, DestroyingAnEventThatIsWaitedForAborts) {
  EXPECT_DEATH(DestroyWithWaiter(), "CHECK failed");
}

TEST_F(EventTest, SleepersWakeInOrderOfTimeAtTheirTime) {
  scope_.Spawn(Sleeps("b", After(2)));
  scope_.Spawn(Sleeps("a", After(1)));
  scope_.Spawn(Sleeps("past", After(-7)));
  EXPECT_EQ(log_, "");  // Even a moment that has passed yields once.
  time_.RunUntil(start_);
  EXPECT_EQ(log_, "past");
  time_.RunUntil(After(2) - absl::Nanoseconds(1));
  EXPECT_EQ(log_, "pasta");
  time_.RunUntil(After(2));
  EXPECT_EQ(log_, "pastab");
}

TEST_F(EventTest, SleeperDestroyedWhileAsleepIsForgotten) {
  auto doomed = std::make_unique<TaskScope>(&executor_);
  doomed->Spawn(Sleeps("doomed", After(1)));
  doomed.reset();
  EXPECT_FALSE(time_.Step());
}

using Ints = AwaitCallback<std::unique_ptr<int>>;

Task<void> AwaitInto(Executor* executor, Ints::Start start, std::unique_ptr<int>* out) {
  Ints ints(executor, std::move(start));
  *out = co_await ints;
}

TEST_F(EventTest, CallbackMayComeBeforeStartReturns) {
  std::unique_ptr<int> got;
  int answer = 3;
  Ints::Start start = [&answer](Ints::Done done) { done(std::make_unique<int>(answer)); };
  scope_.Spawn(AwaitInto(&executor_, std::move(start), &got));
  EXPECT_EQ(got, nullptr);  // Resumed by the executor, not by the caller's stack.
  time_.RunUntil(start_);
  ASSERT_NE(got, nullptr);
  EXPECT_EQ(*got, 3);
}

TEST_F(EventTest, CallbackMayComeLater) {
  std::unique_ptr<int> got;
  Ints::Done pending;
  Ints::Start start = [&](Ints::Done done) { pending = std::move(done); };
  scope_.Spawn(AwaitInto(&executor_, std::move(start), &got));
  time_.RunUntil(After(1));
  EXPECT_EQ(got, nullptr);
  pending(std::make_unique<int>(4));
  time_.RunUntil(After(1));
  EXPECT_EQ(*got, 4);
}

}  // namespace
}  // namespace kvtier
