// Events that a Task waits for: an Event (something happened, or the deadline passed),
// a moment (SleepUntil), or a callback from another thread (AwaitCallback).
#ifndef KVTIER_CORE_EVENT_H_
#define KVTIER_CORE_EVENT_H_

#include <coroutine>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/executor.h"

namespace kvtier {

// One-shot and latched: once Set() it stays set. Any number of tasks wait, each
// inside its own deadline; they resume later, in the order in which they began to
// wait, and may be destroyed at any time. Executor thread only. REQUIRES: outlives
// its waiters' suspension (hold it by shared_ptr in the waiting task).
class Event {
 public:
  explicit Event(Executor* executor) : executor_(executor) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  void Set();
  bool is_set() const { return set_; }

  class Waiter;
  // Waits when it is awaited: returns true when set, false when `deadline` came first.
  Waiter WaitUntil(absl::Time deadline);

 private:
  Executor* const executor_;  // Not owned.
  bool set_ = false;
  std::list<Waiter*> waiters_;
};

class [[nodiscard]] Event::Waiter {
 public:
  Waiter(Event* event, absl::Time deadline) : event_(event), deadline_(deadline) {}
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  bool await_ready() const { return event_->set_ || deadline_ <= event_->executor_->Now(); }
  void await_suspend(std::coroutine_handle<> awaiting);
  bool await_resume() const { return event_->set_; }

 private:
  friend class Event;
  Event* const event_;
  const absl::Time deadline_;
  std::coroutine_handle<> awaiting_;
  std::list<Waiter*>::iterator place_;
  std::optional<TimerId> timer_;
  bool linked_ = false;
};

// co_await SleepUntil(executor, when): resumes at or soon after `when`.
class [[nodiscard]] SleepUntil {
 public:
  SleepUntil(Executor* executor, absl::Time when) : executor_(executor), when_(when) {}
  SleepUntil(const SleepUntil&) = delete;
  SleepUntil& operator=(const SleepUntil&) = delete;
  ~SleepUntil() {
    if (timer_) executor_->Cancel(*timer_);
  }
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    timer_ = executor_->PostAt(when_, [this, awaiting] {
      timer_.reset();
      awaiting.resume();
    });
  }
  void await_resume() const {}

 private:
  Executor* const executor_;
  const absl::Time when_;
  std::optional<TimerId> timer_;
};

// co_await AwaitCallback<T>(executor, start): calls start(done) at once; `done(T)`
// may be called once, from any thread, and resumes the task on the executor.
// REQUIRES: the task is not destroyed before `done` has resumed it. For the real I/O
// seams, whose owners drain before they stop.
template <typename T>
class [[nodiscard]] AwaitCallback {
 public:
  using Done = absl::AnyInvocable<void(T)>;
  using Start = absl::AnyInvocable<void(Done)>;

  AwaitCallback(Executor* executor, Start start) : executor_(executor), start_(std::move(start)) {}
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> awaiting) {
    // `done` may run on another thread before this returns: touch nothing after.
    Start start = std::move(start_);
    start([this, awaiting](T value) {
      value_.emplace(std::move(value));
      executor_->Post([awaiting] { awaiting.resume(); });
    });
  }
  T await_resume() { return *std::move(value_); }

 private:
  Executor* const executor_;
  Start start_;
  std::optional<T> value_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_EVENT_H_
