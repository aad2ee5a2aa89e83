#include "tests/testing/sim_executor.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

namespace kvtier::testing {
namespace {

class SimExecutorTest : public ::testing::Test {
 protected:
  // Returns a closure that notes its name when it runs.
  Executor::Closure Note(const std::string& name) {
    return [this, name] { ran_ += name; };
  }
  SimTime time_;
  SimExecutor executor_{&time_};
  const absl::Time start_ = time_.Now();
  std::string ran_;
};

TEST_F(SimExecutorTest, RunsInOrderOfTimeThenOfTheCalls) {
  executor_.PostAt(start_ + absl::Seconds(2), Note("d"));
  executor_.PostAt(start_ + absl::Seconds(1), Note("b"));
  executor_.PostAt(start_ + absl::Seconds(1), Note("c"));
  executor_.Post(Note("a"));
  time_.RunUntil(start_ + absl::Seconds(3));
  EXPECT_EQ(ran_, "abcd");
  EXPECT_EQ(time_.Now(), start_ + absl::Seconds(3));
  EXPECT_EQ(time_.events_run(), 4u);
}

TEST_F(SimExecutorTest, RunUntilRunsWhatIsDueThenAndNothingLater) {
  executor_.PostAt(start_ + absl::Seconds(1), Note("a"));
  executor_.PostAt(start_ + absl::Seconds(1) + absl::Nanoseconds(1), Note("b"));
  time_.RunUntil(start_ + absl::Seconds(1));
  EXPECT_EQ(ran_, "a");
}

TEST_F(SimExecutorTest, TimeNeverGoesBackForALateTimer) {
  time_.RunUntil(start_ + absl::Seconds(5));
  executor_.PostAt(start_, Note("late"));
  EXPECT_TRUE(time_.Step());
  EXPECT_EQ(time_.Now(), start_ + absl::Seconds(5));
  EXPECT_EQ(ran_, "late");
  EXPECT_FALSE(time_.Step());
}

TEST_F(SimExecutorTest, TimerCancelledByAnotherDueAtTheSameTimeDoesNotRun) {
  TimerId second{};
  executor_.PostAt(start_, [&] { executor_.Cancel(second); });
  second = executor_.PostAt(start_, Note("second"));
  time_.RunUntil(start_);
  EXPECT_EQ(ran_, "");
  executor_.Cancel(second);  // Cancelled already: ignored.
}

TEST_F(SimExecutorTest, DestroyingAnExecutorForgetsOnlyItsOwn) {
  auto crashed = std::make_unique<SimExecutor>(&time_);
  crashed->Post(Note("crashed"));
  executor_.Post(Note("alive"));
  crashed.reset();
  time_.RunUntil(start_);
  EXPECT_EQ(ran_, "alive");
}

// A closure may own the last reference to an object that cancels other timers.
TEST_F(SimExecutorTest, ClosuresMayCancelOthersWhileTheyAreDestroyed) {
  auto crashed = std::make_unique<SimExecutor>(&time_);
  const TimerId other = crashed->PostAt(start_ + absl::Seconds(1), Note("other"));
  std::shared_ptr<void> cancels(nullptr, [&, raw = crashed.get()](void*) { raw->Cancel(other); });
  crashed->Post([cancels] {});
  cancels.reset();
  crashed.reset();
  EXPECT_FALSE(time_.Step());
}

}  // namespace
}  // namespace kvtier::testing
