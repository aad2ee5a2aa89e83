// These functions run work on the executor and block the calling thread until it has ended. Socket
// and RPC threads use them. Never call them on the executor.
#ifndef KVTIER_CORE_CALL_ON_EXECUTOR_H_
#define KVTIER_CORE_CALL_ON_EXECUTOR_H_

#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "core/check.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"

namespace kvtier {

// Runs `fn` on the executor and returns what it returns.
template <typename Fn>
auto CallOn(Executor* executor, Fn fn) {
  using Result = decltype(fn());
  KVT_CHECK(!executor->OnExecutor());
  absl::Notification done;
  std::optional<Result> result;
  executor->Post([&] {
    result.emplace(fn());
    done.Notify();
  });
  done.WaitForNotification();
  return *std::move(result);
}

namespace call_internal {

template <typename T>
Task<void> StoreAndNotify(Task<T> task, std::optional<T>* result, absl::Notification* done) {
  result->emplace(co_await task);
  done->Notify();
}

}  // namespace call_internal

// Runs `task` to its end in `scope` and returns its value.
template <typename T>
T AwaitOn(Executor* executor, TaskScope* scope, Task<T> task) {
  KVT_CHECK(!executor->OnExecutor());
  absl::Notification done;
  std::optional<T> result;
  executor->Post(
      [&] { scope->Spawn(call_internal::StoreAndNotify(std::move(task), &result, &done)); });
  done.WaitForNotification();
  return *std::move(result);
}

// Awaits the task in a scope of its own, which is gone when it returns.
template <typename T>
T AwaitOn(Executor* executor, Task<T> task) {
  std::optional<TaskScope> scope;
  CallOn(executor, [&] { return &scope.emplace(executor); });
  T value = AwaitOn(executor, &*scope, std::move(task));
  CallOn(executor, [&] {
    scope.reset();
    return true;
  });
  return value;
}

}  // namespace kvtier

#endif  // KVTIER_CORE_CALL_ON_EXECUTOR_H_
