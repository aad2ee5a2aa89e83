#include "core/thread_executor.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/event.h"
#include "core/task_scope.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

// Runs `fn` on the executor and waits for it.
void RunOn(ThreadExecutor& executor, Executor::Closure fn) {
  absl::Notification ran;
  executor.Post([&] {
    fn();
    ran.Notify();
  });
  ran.WaitForNotification();
}

TEST(ThreadExecutor, RunsOnItsOwnNamedThread) {
  ThreadExecutor executor("kvt-decisions-of-a-long-name");
  EXPECT_FALSE(executor.OnExecutor());
  std::array<char, 16> name{};
  bool on_executor = false;
  // The creator of the thread names it, before anything can be posted.
  RunOn(executor, [&] {
    on_executor = executor.OnExecutor();
    pthread_getname_np(pthread_self(), name.data(), name.size());
  });
  EXPECT_TRUE(on_executor);
  EXPECT_STREQ(name.data(), "kvt-decisions-o");
}

// A lane's thread that sleeps 10 us and wakes up 60 us later leaves the link idle.
TEST(ThreadExecutor, HasTheTimerSlackThatItWasGivenWhoeverStartsIt) {
  ThreadExecutor prompt("test-prompt", TimerSlack::kLeast);
  int slack_ns = 0;
  RunOn(prompt, [&] { slack_ns = prctl(PR_GET_TIMERSLACK); });
  EXPECT_EQ(slack_ns, 1);
  const int usual_ns = prctl(PR_GET_TIMERSLACK);
  EXPECT_GT(usual_ns, 1);
  RunOn(prompt, [&] {
    ThreadExecutor usual("test-usual");
    RunOn(usual, [&] { slack_ns = prctl(PR_GET_TIMERSLACK); });
  });
  EXPECT_EQ(slack_ns, usual_ns);
}

TEST(ThreadExecutor, RunsWhatEachThreadPostsInItsOrder) {
  ThreadExecutor executor("test");
  constexpr int kThreads = 4;
  constexpr int kPosts = 2000;
  std::vector<std::vector<int>> ran(kThreads);  // Touched on the executor only.
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kPosts; ++i) executor.Post([&ran, t, i] { ran[t].push_back(i); });
    });
  }
  for (std::thread& poster : posters) poster.join();
  executor.Stop();
  for (const std::vector<int>& sequence : ran) {
    ASSERT_EQ(sequence.size(), static_cast<size_t>(kPosts));
    for (int i = 0; i < kPosts; ++i) ASSERT_EQ(sequence[i], i);
  }
}

TEST(ThreadExecutor, RunsTimersInOrderOfTimeThenOfTheCallsAndNoneEarly) {
  ThreadExecutor executor("test");
  std::string ran;
  absl::Notification done;
  absl::Time last_ran_at;
  const absl::Time start = executor.Now();
  RunOn(executor, [&] {
    executor.PostAt(start + absl::Milliseconds(20), [&] {
      ran += "d";
      last_ran_at = executor.Now();
      done.Notify();
    });
    executor.PostAt(start + absl::Milliseconds(10), [&] { ran += "b"; });
    executor.PostAt(start + absl::Milliseconds(10), [&] { ran += "c"; });
    executor.PostAt(start - absl::Hours(1), [&] { ran += "a"; });
  });
  done.WaitForNotification();
  EXPECT_EQ(ran, "abcd");
  EXPECT_GE(last_ran_at, start + absl::Milliseconds(20));
}

TEST(ThreadExecutor, TimerCancelledByAnEarlierOneDueAtTheSameTimeDoesNotRun) {
  ThreadExecutor executor("test");
  bool second_ran = false;
  absl::Notification done;
  RunOn(executor, [&] {
    const absl::Time when = executor.Now();
    auto second = std::make_shared<TimerId>();
    executor.PostAt(when, [&executor, second] { executor.Cancel(*second); });
    *second = executor.PostAt(when, [&] { second_ran = true; });
    executor.PostAt(when, [&] { done.Notify(); });
  });
  done.WaitForNotification();
  EXPECT_FALSE(second_ran);
}

TEST(ThreadExecutor, CancelOfATimerThatHasRunIsIgnored) {
  ThreadExecutor executor("test");
  TimerId id{};
  absl::Notification ran;
  RunOn(executor, [&] { id = executor.PostAt(executor.Now(), [&] { ran.Notify(); }); });
  ran.WaitForNotification();
  RunOn(executor, [&] { executor.Cancel(id); });
}

TEST(ThreadExecutor, LendersRunAtOnceAndNeverTwoAtATime) {
  ThreadExecutor executor("test");
  const std::thread::id here = std::this_thread::get_id();
  bool ran = false;
  bool on_executor = false;
  executor.RunOrPost([&] {
    ran = std::this_thread::get_id() == here;
    on_executor = executor.OnExecutor();
  });
  EXPECT_TRUE(ran) << "nothing else was to be done";
  EXPECT_TRUE(on_executor);
  EXPECT_FALSE(executor.OnExecutor()) << "the turn is over";

  constexpr int kThreads = 4;
  constexpr int kCalls = 5000;
  uint64_t counted = 0;  // Counter that only the executor writes, without a lock.
  std::atomic<int> inside = 0;
  std::vector<std::thread> callers;
  for (int t = 0; t < kThreads; ++t) {
    callers.emplace_back([&, t] {
      const auto count = [&] {
        EXPECT_EQ(inside.fetch_add(1), 0);
        ++counted;
        inside.fetch_sub(1);
      };
      for (int i = 0; i < kCalls; ++i) {
        if (t % 2 == 0) executor.RunOrPost(count);
        if (t % 2 == 1) executor.Post(count);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  executor.Stop();
  EXPECT_EQ(counted, uint64_t{kThreads} * kCalls);
}

TEST(ThreadExecutor, ALenderKeepsTheOrderOfWhatWasPostedBefore) {
  ThreadExecutor executor("test");
  absl::Notification begin;
  std::string ran;
  executor.Post([&] { begin.WaitForNotification(); });
  executor.Post([&] { ran += "a"; });
  executor.RunOrPost([&] { ran += "b"; });
  executor.Post([&] { ran += "c"; });
  begin.Notify();
  executor.Stop();
  EXPECT_EQ(ran, "abc");
}

// The executor's thread sleeps a second at a time while nothing is due: twenty timers that did not
// wake it would take it about as many seconds.
TEST(ThreadExecutor, ATimerOfALenderWakesTheExecutorThatSleepsForALaterOne) {
  ThreadExecutor executor("test");
  const absl::Time start = executor.Now();
  for (int i = 0; i < 20; ++i) {
    absl::Notification rang;
    bool lent = false;
    while (!lent) {
      absl::Notification ran;
      executor.RunOrPost([&, here = std::this_thread::get_id()] {
        lent = std::this_thread::get_id() == here;
        if (lent) executor.PostAt(executor.Now(), [&rang] { rang.Notify(); });
        ran.Notify();
      });
      ran.WaitForNotification();
    }
    rang.WaitForNotification();
  }
  EXPECT_LT(executor.Now() - start, absl::Seconds(10));
}

// Regression: timers that set timers due at once kept posted closures waiting for ever.
TEST(ThreadExecutor, TimersThatSetTimersDoNotStarveWhatIsPosted) {
  ThreadExecutor executor("test");
  bool stop = false;  // Used on the executor only.
  Executor::Closure again = [] {};
  absl::Notification stopped;
  RunOn(executor, [&] {
    again = [&] {
      if (stop) return stopped.Notify();
      executor.PostAt(executor.Now(), [&] { again(); });
    };
    again();
  });
  RunOn(executor, [&] { stop = true; });
  stopped.WaitForNotification();
  executor.Stop();
}

TEST(ThreadExecutor, StopRunsWhatIsPostedAndWhatThatPosts) {
  ThreadExecutor executor("test");
  int ran = 0;
  for (int i = 0; i < 1000; ++i) {
    executor.Post([&] { executor.Post([&] { ++ran; }); });
  }
  executor.Stop();
  EXPECT_EQ(ran, 1000);
}

TEST(ThreadExecutor, StopRunsDueTimersAndDropsLaterOnes) {
  ThreadExecutor executor("test");
  int ran = 0;
  const auto dropped = std::make_shared<int>(0);
  executor.Post([&] {
    executor.PostAt(executor.Now(), [&] {
      ++ran;
      executor.PostAt(executor.Now(), [&] { ++ran; });
    });
    executor.PostAt(executor.Now() + absl::Hours(1), [dropped] { ++*dropped; });
  });
  executor.Stop();
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(*dropped, 0);
  EXPECT_EQ(dropped.use_count(), 1);  // Dropped by Stop(), not at the end.
  executor.Stop();
}

// A closure may own the last reference to what cancels other timers.
TEST(ThreadExecutor, DroppedTimersMayCancelOthersWhileTheyAreDestroyed) {
  ThreadExecutor executor("test");
  executor.Post([&] {
    const absl::Time later = executor.Now() + absl::Hours(1);
    const TimerId other = executor.PostAt(later, [] {});
    std::shared_ptr<void> cancels(nullptr, [&executor, other](void*) { executor.Cancel(other); });
    executor.PostAt(later, [cancels = std::move(cancels)] {});
  });
  executor.Stop();
}

Task<void> PingPong(Executor* executor, int rounds, absl::Notification* done) {
  for (int i = 0; i < rounds; ++i) {
    auto event = std::make_shared<Event>(executor);
    executor->Post([event] { event->Set(); });
    const bool set = co_await event->WaitUntil(executor->Now() + absl::Minutes(1));
    EXPECT_TRUE(set);
  }
  done->Notify();
}

TEST(ThreadExecutor, DrivesTasksEventsAndTheirScope) {
  ThreadExecutor executor("test");
  absl::Notification done;
  auto scope = std::make_unique<TaskScope>(&executor);
  RunOn(executor, [&] { scope->Spawn(PingPong(&executor, 1000, &done)); });
  done.WaitForNotification();
  RunOn(executor, [&] { scope.reset(); });
}

using IntCallback = AwaitCallback<int>;

Task<void> AddFromThreads(Executor* executor, int rounds, int* sum, absl::Notification* done) {
  for (int i = 0; i < rounds; ++i) {
    std::thread caller;
    IntCallback::Start start = [&caller, i](IntCallback::Done answer) {
      caller = std::thread([answer = std::move(answer), i]() mutable { answer(i); });
    };
    IntCallback answered(executor, std::move(start));
    const int value = co_await answered;
    EXPECT_TRUE(executor->OnExecutor());
    caller.join();
    *sum += value;
  }
  done->Notify();
}

TEST(ThreadExecutor, ResumesATaskWhoseCallbackComesFromAnotherThread) {
  ThreadExecutor executor("test");
  absl::Notification done;
  int sum = 0;
  auto scope = std::make_unique<TaskScope>(&executor);
  RunOn(executor, [&] { scope->Spawn(AddFromThreads(&executor, 100, &sum, &done)); });
  done.WaitForNotification();
  RunOn(executor, [&] { scope.reset(); });
  EXPECT_EQ(sum, 99 * 100 / 2);
}

void SetATimerFromOutside() {
  ThreadExecutor executor("test");
  executor.PostAt(executor.Now(), [] {});
}

TEST(ThreadExecutorDeathTest, SettingATimerFromAnotherThreadAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(SetATimerFromOutside(), "CHECK failed");
}

}  // namespace
}  // namespace kvtier
