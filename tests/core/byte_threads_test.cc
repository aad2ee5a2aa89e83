#include "core/byte_threads.h"

#include <pthread.h>

#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/sim_executor.h"

namespace kvtier {
namespace {

using ::testing::ElementsAre;

class BytePoolTest : public ::testing::Test {
 protected:
  // Runs `work` on `pool`, then counts it as done, on the executor.
  Task<void> Run(ByteThreads* byte_threads, ByteThreads::Work work, absl::BlockingCounter* done) {
    co_await byte_threads->Run(std::move(work));
    EXPECT_TRUE(executor_.OnExecutor());
    done->DecrementCount();
  }
  void Spawn(ByteThreads* byte_threads, ByteThreads::Work work, absl::BlockingCounter* done) {
    executor_.Post([this, byte_threads, work = std::move(work), done]() mutable {
      scope_->Spawn(Run(byte_threads, std::move(work), done));
    });
  }
  void TearDown() override {
    executor_.Post([this] { scope_.reset(); });
    executor_.Stop();
  }

  ThreadExecutor executor_{"test"};
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>(&executor_);
};

TEST_F(BytePoolTest, RunsWorkOffTheExecutorAndResumesOnIt) {
  BytePool pool(&executor_, "bytes", 1);
  absl::BlockingCounter done(1);
  bool on_executor = true;
  Spawn(&pool, [&] { on_executor = executor_.OnExecutor(); }, &done);
  done.Wait();
  EXPECT_FALSE(on_executor);
}

TEST_F(BytePoolTest, RunsAsManyAtOnceAsItHasThreadsUnderTheirNames) {
  constexpr int kThreads = 3;
  BytePool pool(&executor_, "bytes", kThreads);
  absl::BlockingCounter done(kThreads);
  absl::Mutex mu;
  std::set<std::string> names;
  auto* const barrier = new absl::Barrier(kThreads);  // The last to leave deletes it.
  for (int i = 0; i < kThreads; ++i) {
    Spawn(
        &pool,
        [&] {
          std::array<char, 16> name{};
          pthread_getname_np(pthread_self(), name.data(), name.size());
          {
            absl::MutexLock lock(&mu);
            names.insert(name.data());
          }
          if (barrier->Block()) delete barrier;
        },
        &done);
  }
  done.Wait();
  EXPECT_THAT(names, ElementsAre("bytes-0", "bytes-1", "bytes-2"));
}

TEST_F(BytePoolTest, RunsAllThatIsQueuedBehindFewThreads) {
  constexpr int kWorks = 500;
  BytePool pool(&executor_, "bytes", 2);
  absl::BlockingCounter done(kWorks);
  std::vector<int> results(kWorks, 0);  // Results, each written by its own work.
  for (int i = 0; i < kWorks; ++i) Spawn(&pool, [&results, i] { results[i] = i + 1; }, &done);
  done.Wait();
  for (int i = 0; i < kWorks; ++i) EXPECT_EQ(results[i], i + 1);
}

TEST(InlineByteThreads, RunTheWorkAtOnceInNoTime) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  testing::InlineByteThreads byte_threads;
  TaskScope scope(&executor);
  bool ran = false;
  scope.Spawn(byte_threads.Run([&] { ran = true; }));
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace kvtier
