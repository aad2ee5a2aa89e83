// ThreadExecutor is the real Executor: one named thread, joined by Stop(), and any thread that
// calls RunOrPost() while that thread sleeps.
#ifndef KVTIER_CORE_THREAD_EXECUTOR_H_
#define KVTIER_CORE_THREAD_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "core/executor.h"

namespace kvtier {

// TimerSlack says how late the kernel may wake a thread by a timer, to wake several at once.
enum class TimerSlack : uint8_t {
  kUsual,  // Linux's default, 50 us.
  kLeast,  // 1 ns: for a thread that looks at a device every few microseconds.
};

class ThreadExecutor final : public Executor {
 public:
  // Starts the thread; `name` (15 bytes at most) shows in ps and gdb.
  explicit ThreadExecutor(const std::string& name, TimerSlack slack = TimerSlack::kUsual);
  // REQUIRES: Stop() has returned, or nothing posts any more; calls Stop().
  ~ThreadExecutor() override;

  absl::Time Now() const override { return clock_.Now(); }
  void Post(Closure fn) override ABSL_LOCKS_EXCLUDED(mu_);
  void RunOrPost(Closure fn) override ABSL_LOCKS_EXCLUDED(mu_);
  TimerId PostAt(absl::Time when, Closure fn) override ABSL_LOCKS_EXCLUDED(mu_);
  void Cancel(TimerId id) override ABSL_LOCKS_EXCLUDED(mu_);
  bool OnExecutor() const override {
    return std::this_thread::get_id() == turn_.load(std::memory_order_relaxed);
  }

  // Runs what is posted or due, drops later timers, joins the thread. Idempotent.
  // REQUIRES: not called on the executor's thread.
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  using TimerKey = std::pair<absl::Time, uint64_t>;  // (when, id): ties in call order.
  void Run(TimerSlack slack) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for something posted or due and for the turn, takes the turn, and moves what is posted
  // into `batch`. False: stopped, and nothing is posted or due.
  bool WaitForWork(std::deque<Closure>* batch) ABSL_LOCKS_EXCLUDED(mu_);
  void TakeTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EndTurn() ABSL_LOCKS_EXCLUDED(mu_);
  // Takes a timer that is due; null: none is due.
  Closure TakeTimer(absl::Time due) ABSL_LOCKS_EXCLUDED(mu_);

  const MonotonicClock clock_;
  absl::Mutex mu_;
  std::deque<Closure> ready_ ABSL_GUARDED_BY(mu_);
  std::map<TimerKey, Closure> timers_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, absl::Time> timer_when_ ABSL_GUARDED_BY(mu_);
  uint64_t next_timer_ ABSL_GUARDED_BY(mu_) = 1;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;  // Whether some thread has the turn.
  // Whether a timer was set that is due before the one that the executor's thread waits for.
  bool sooner_ ABSL_GUARDED_BY(mu_) = false;
  // The thread that has the turn. Relaxed: a thread compares it with itself only, and sees what it
  // wrote itself.
  std::atomic<std::thread::id> turn_;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_THREAD_EXECUTOR_H_
