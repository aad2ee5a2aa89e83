// Runs a Task to its end, on a simulated or a real executor, and returns its value.
#ifndef KVTIER_TESTS_TIER_DISK_RUN_TASK_H_
#define KVTIER_TESTS_TIER_DISK_RUN_TASK_H_

#include <optional>
#include <utility>

#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tests/testing/sim_executor.h"

namespace kvtier::testing {

template <typename T>
Task<void> Collect(Task<T> task, std::optional<T>* value) {
  *value = co_await task;
}

// Steps virtual time until the task ends. REQUIRES: it does end.
template <typename T>
T RunTask(SimTime* time, SimExecutor* executor, Task<T> task) {
  std::optional<T> value;
  TaskScope scope(executor);
  scope.Spawn(Collect(std::move(task), &value));
  while (!value) KVT_CHECK(time->Step());
  return *std::move(value);
}

template <typename T>
T RunTask(ThreadExecutor* executor, Task<T> task) {
  return AwaitOn(executor, std::move(task));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_DISK_RUN_TASK_H_
