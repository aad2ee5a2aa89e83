// Executor runs decisions: closures one after another, never two at a time, and timers. They run on
// the executor's own thread, or on a calling thread for one closure (RunOrPost): "on the executor"
// and "executor thread" mean the thread that has the turn. Flows (Task), tables and policies live
// on it without locks; bytes and blocking calls never do. Two forms: ThreadExecutor here and
// SimExecutor in tests/testing, which runs the same closures in virtual time.
#ifndef KVTIER_CORE_EXECUTOR_H_
#define KVTIER_CORE_EXECUTOR_H_

#include <cstdint>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/clock.h"

namespace kvtier {

enum class TimerId : uint64_t {};

class Executor : public Clock {
 public:
  using Closure = absl::AnyInvocable<void()>;

  // Runs `fn` later, in the order of the calls. Any thread. The queue has no limit of its own: the
  // callers bound it (requests in flight, I/O depth).
  virtual void Post(Closure fn) = 0;
  // Runs `fn` on the caller's thread, before it returns, if the executor has nothing else to do,
  // which saves two switches of threads; otherwise acts as Post(). REQUIRES: the caller holds no
  // lock that `fn` takes, and may be kept as long as `fn` runs.
  virtual void RunOrPost(Closure fn) { Post(std::move(fn)); }
  // Runs `fn` at or soon after `when`; ties run in the order of the calls.
  // Executor thread only.
  virtual TimerId PostAt(absl::Time when, Closure fn) = 0;
  // Forgets the timer; a timer that has run is ignored. Executor thread only.
  virtual void Cancel(TimerId id) = 0;
  // Returns true on the thread that has the turn: flows CHECK it where they touch tables.
  virtual bool OnExecutor() const = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_EXECUTOR_H_
