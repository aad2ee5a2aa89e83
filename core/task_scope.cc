#include "core/task_scope.h"

#include <utility>

namespace kvtier {
namespace {

constexpr absl::Duration kIdlePollInterval = absl::Milliseconds(2);

}  // namespace

void TaskScope::Spawn(Task<void> task) {
  const auto place = running_.insert(running_.end(), Task<void>());
  *place = Run(std::move(task), place);
  place->handle().resume();
}

Task<void> TaskScope::Run(Task<void> task, std::list<Task<void>>::iterator place) {
  co_await task;
  // A frame cannot free itself while it runs.
  executor_->Post([this, place] { running_.erase(place); });
}

Task<bool> TaskScope::Idle(absl::Time deadline) {
  while (!running_.empty() && executor_->Now() < deadline) {
    co_await SleepUntil(executor_, executor_->Now() + kIdlePollInterval);
  }
  co_return running_.empty();
}

}  // namespace kvtier
