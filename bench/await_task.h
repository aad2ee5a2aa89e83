// Runs a task on an executor of another thread and waits for its value.
#ifndef KVTIER_BENCH_AWAIT_TASK_H_
#define KVTIER_BENCH_AWAIT_TASK_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"

namespace kvtier::bench {

template <typename T>
T Await(Executor* executor, Task<T> task) {
  std::optional<T> value;
  std::unique_ptr<TaskScope> scope;
  absl::Notification ended;
  executor->Post([&] {
    scope = std::make_unique<TaskScope>(executor);
    scope->Spawn(
        [](Task<T> task, std::optional<T>* value, absl::Notification* ended) -> Task<void> {
          *value = co_await task;
          ended->Notify();
        }(std::move(task), &value, &ended));
  });
  ended.WaitForNotification();
  absl::Notification cleared;
  executor->Post([&] {
    scope.reset();
    cleared.Notify();
  });
  cleared.WaitForNotification();
  return *std::move(value);
}

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_AWAIT_TASK_H_
