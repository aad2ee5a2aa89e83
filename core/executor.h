// Executor runs decisions: closures one after another on one thread, and timers.
// Flows (Task), tables and policies live on it without locks; bytes and blocking
// calls never do. Two forms: ThreadExecutor here and SimExecutor in tests/testing,
// which runs the same closures in virtual time.
#ifndef KVTIER_CORE_EXECUTOR_H_
#define KVTIER_CORE_EXECUTOR_H_

#include <cstdint>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/clock.h"

namespace kvtier {

enum class TimerId : uint64_t {};

class Executor : public Clock {
 public:
  using Closure = absl::AnyInvocable<void()>;

  // Runs `fn` later on the executor's thread, in the order of the calls. Any
  // thread. The queue has no limit of its own: whoever posts is bounded (requests
  // in flight, I/O depth).
  virtual void Post(Closure fn) = 0;
  // Runs `fn` at or soon after `when`; ties run in the order of the calls.
  // Executor thread only.
  virtual TimerId PostAt(absl::Time when, Closure fn) = 0;
  // Forgets the timer; a timer that has run is ignored. Executor thread only.
  virtual void Cancel(TimerId id) = 0;
  // True on the executor's own thread: flows CHECK it where they touch tables.
  virtual bool OnExecutor() const = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_EXECUTOR_H_
