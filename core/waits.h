// Waits are the waits of one program. When it stops, all of them end before their deadlines: a task
// that waits then goes on as if its deadline had come.
//
// Executor thread only. REQUIRES: outlives the suspension of every task that waits by it.
#ifndef KVTIER_CORE_WAITS_H_
#define KVTIER_CORE_WAITS_H_

#include <coroutine>
#include <optional>

#include "absl/time/time.h"
#include "core/event.h"
#include "core/executor.h"

namespace kvtier {

class Waits {
 public:
  explicit Waits(Executor* executor) : ended_(executor) {}

  // Ends all waits soon, and lets none begin any more.
  void End() { ended_.Set(); }
  bool ended() const { return ended_.is_set(); }

  class Waiter;
  // Waits when it is awaited: returns true when `event` is set, false when `deadline` or End() came
  // first. REQUIRES: as Event::WaitUntil().
  Waiter Until(Event* event, absl::Time deadline);

 private:
  Event ended_;
};

class [[nodiscard]] Waits::Waiter {
 public:
  Waiter(Event* event, Event* ended, absl::Time deadline)
      : event_(event), ended_(ended), deadline_(deadline) {}

  bool await_ready() const {
    return ended_->is_set() || Event::Waiter(event_, deadline_).await_ready();
  }
  void await_suspend(std::coroutine_handle<> awaiting) {
    for_event_.emplace(event_, deadline_);
    for_event_->await_suspend(awaiting);
    for_end_.emplace(ended_, absl::InfiniteFuture());
    for_end_->await_suspend(awaiting);
  }
  bool await_resume() {
    // The waiter that did not resume the task must not do so later.
    for_event_.reset();
    for_end_.reset();
    return event_->is_set();
  }

 private:
  Event* const event_;
  Event* const ended_;
  const absl::Time deadline_;
  std::optional<Event::Waiter> for_event_;
  std::optional<Event::Waiter> for_end_;
};

inline Waits::Waiter Waits::Until(Event* event, absl::Time deadline) {
  return {event, &ended_, deadline};
}

}  // namespace kvtier

#endif  // KVTIER_CORE_WAITS_H_
