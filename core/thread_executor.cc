#include "core/thread_executor.h"

#include <pthread.h>
#include <sys/prctl.h>

#include <algorithm>

#include "core/check.h"

namespace kvtier {
namespace {

constexpr absl::Duration kMaxWait = absl::Seconds(1);

}  // namespace

ThreadExecutor::ThreadExecutor(const std::string& name, TimerSlack slack)
    : thread_([this, slack] { Run(slack); }) {
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

ThreadExecutor::~ThreadExecutor() { Stop(); }

void ThreadExecutor::Post(Closure fn) {
  absl::MutexLock lock(&mu_);
  ready_.push_back(std::move(fn));
}

void ThreadExecutor::RunOrPost(Closure fn) {
  {
    absl::MutexLock lock(&mu_);
    // Callers that take the turn one after the other must not keep timers waiting.
    const bool due = !timers_.empty() && timers_.begin()->first.first <= clock_.Now();
    if (taken_ || due || !ready_.empty() || stopping_) {
      ready_.push_back(std::move(fn));
      return;
    }
    TakeTurn();
  }
  fn();
  fn = nullptr;  // Objects that `fn` owned are destroyed in the same turn.
  EndTurn();
}

void ThreadExecutor::TakeTurn() {
  taken_ = true;
  turn_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

void ThreadExecutor::EndTurn() {
  turn_.store({}, std::memory_order_relaxed);
  absl::MutexLock lock(&mu_);
  taken_ = false;
}

TimerId ThreadExecutor::PostAt(absl::Time when, Closure fn) {
  KVT_CHECK(OnExecutor());
  absl::MutexLock lock(&mu_);
  const uint64_t id = next_timer_++;
  const auto [timer, added] = timers_.emplace(TimerKey{when, id}, std::move(fn));
  if (timer == timers_.begin()) sooner_ = true;

  timer_when_.emplace(id, when);
  return TimerId{id};
}

void ThreadExecutor::Cancel(TimerId id) {
  Closure doomed;  // Destroyed outside the lock: it may own anything.
  absl::MutexLock lock(&mu_);
  const auto when = timer_when_.find(static_cast<uint64_t>(id));
  if (when == timer_when_.end()) return;
  const auto timer = timers_.find(TimerKey{when->second, when->first});
  doomed = std::move(timer->second);
  timers_.erase(timer);
  timer_when_.erase(when);
}

void ThreadExecutor::Stop() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  // Closures are destroyed outside the lock and the maps, as their destructors may cancel timers.
  std::map<TimerKey, Closure> doomed;
  absl::MutexLock lock(&mu_);
  doomed.swap(timers_);
  timer_when_.clear();
}

void ThreadExecutor::Run(TimerSlack slack) {
  // The slack is set in either case, because a thread begins with its creator's slack.
  const uint64_t slack_ns = slack == TimerSlack::kLeast ? 1 : 50'000;
  KVT_CHECK(prctl(PR_SET_TIMERSLACK, slack_ns) == 0);
  std::deque<Closure> batch;
  while (WaitForWork(&batch)) {
    for (Closure& fn : batch) fn();
    batch.clear();
    // Timers run one at a time, because a timer may cancel the next one. Timers that are set from
    // here on run after the posted work, so that neither starves the other.
    const absl::Time due = clock_.Now();
    while (Closure timer = TakeTimer(due)) timer();
    EndTurn();
  }
}

bool ThreadExecutor::WaitForWork(std::deque<Closure>* batch) {
  absl::MutexLock lock(&mu_);
  const auto woken = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !taken_ && (!ready_.empty() || stopping_ || sooner_);
  };
  const auto free = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return !taken_; };
  while (true) {
    sooner_ = false;
    const absl::Time next = timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.first;
    const absl::Duration wait = std::min(next - clock_.Now(), kMaxWait);
    // absl::Mutex waits on the wall clock; the cap bounds what a jump of it can delay.
    mu_.AwaitWithTimeout(absl::Condition(&woken), wait);
    mu_.Await(absl::Condition(&free));
    const bool due = !timers_.empty() && timers_.begin()->first.first <= clock_.Now();
    if (due || !ready_.empty()) break;
    if (stopping_) return false;
  }
  TakeTurn();
  batch->swap(ready_);
  return true;
}

Executor::Closure ThreadExecutor::TakeTimer(absl::Time due) {
  absl::MutexLock lock(&mu_);
  if (timers_.empty() || timers_.begin()->first.first > due) return nullptr;
  Closure timer = std::move(timers_.begin()->second);
  timer_when_.erase(timers_.begin()->first.second);
  timers_.erase(timers_.begin());
  return timer;
}

}  // namespace kvtier
