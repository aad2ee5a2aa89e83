// TaskScope owns tasks that nobody awaits: it starts them, forgets each when it
// ends, and can be waited for. A flow that outlives its request (a load whose
// asker gave up) runs in its agent's scope, so shutdown knows of it.
#ifndef KVTIER_CORE_TASK_SCOPE_H_
#define KVTIER_CORE_TASK_SCOPE_H_

#include <cstddef>
#include <list>
#include <optional>

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

  // Runs `task` until it first waits, then returns.
  void Spawn(Task<void> task);
  // Tasks whose frames still exist.
  size_t running() const { return running_.size() + ended_.size(); }
  // Ends when no spawned task runs, or at `deadline`: true when idle. Polls; for
  // shutdown only.
  Task<bool> Idle(absl::Time deadline);

 private:
  Task<void> Run(Task<void> task, std::list<Task<void>>::iterator place);
  // Frees the frames of tasks that ended.
  void Reap();

  Executor* const executor_;  // Not owned.
  std::list<Task<void>> running_;
  std::list<Task<void>> ended_;  // Freed by the next Spawn(), or by `reaper_`.
  std::optional<TimerId> reaper_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_TASK_SCOPE_H_
