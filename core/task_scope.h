// TaskScope owns tasks that nobody awaits: it starts them, forgets each when it
// ends, and can be waited for. A flow that outlives its request (a load whose
// asker gave up) runs in its agent's scope, so shutdown knows of it.
#ifndef KVTIER_CORE_TASK_SCOPE_H_
#define KVTIER_CORE_TASK_SCOPE_H_

#include <coroutine>
#include <cstddef>
#include <exception>
#include <list>

#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"

namespace kvtier {

// Executor thread only. The destructor destroys what still runs, frame by frame,
// which is how the simulator crashes a node; a real program awaits Idle() first.
// REQUIRES: no task of the scope destroys it.
class TaskScope {
 public:
  explicit TaskScope(Executor* executor) : executor_(executor) {}
  TaskScope(const TaskScope&) = delete;
  TaskScope& operator=(const TaskScope&) = delete;
  ~TaskScope();

  // Runs `task` until it first waits, then returns. Objects that the task holds are destroyed as
  // soon as it ends, on the stack of the code that ended it.
  void Spawn(Task<void> task);
  // Tasks that have not ended.
  size_t running() const { return running_.size(); }
  // Ends when no spawned task runs, or at `deadline`: true when idle. Polls; for
  // shutdown only.
  Task<bool> Idle(absl::Time deadline);

 private:
  // Flow is a coroutine that nobody owns: its frame is destroyed when it ends.
  struct Flow {
    struct promise_type {
      Flow get_return_object() noexcept {
        return {std::coroutine_handle<promise_type>::from_promise(*this)};
      }
      std::suspend_always initial_suspend() const noexcept { return {}; }
      std::suspend_never final_suspend() const noexcept { return {}; }
      void return_void() const noexcept {}
      [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
    std::coroutine_handle<> handle;
  };
  using Running = std::list<std::coroutine_handle<>>;
  Flow Run(Task<void> task, Running::iterator place);

  Executor* const executor_;  // Not owned.
  Running running_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_TASK_SCOPE_H_
