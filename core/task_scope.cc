#include "core/task_scope.h"

#include <utility>

namespace kvtier {
namespace {

constexpr absl::Duration kIdlePollInterval = absl::Milliseconds(2);

}  // namespace

TaskScope::~TaskScope() {
  while (!running_.empty()) {
    const std::coroutine_handle<> handle = running_.front();
    running_.pop_front();
    handle.destroy();
  }
}

void TaskScope::Spawn(Task<void> task) {
  const auto place = running_.emplace(running_.end());
  *place = Run(std::move(task), place).handle;
  place->resume();
}

TaskScope::Flow TaskScope::Run(Task<void> task, Running::iterator place) {
  co_await task;
  running_.erase(place);
}

Task<bool> TaskScope::Idle(absl::Time deadline) {
  while (running() > 0 && executor_->Now() < deadline) {
    co_await SleepUntil(executor_, executor_->Now() + kIdlePollInterval);
  }
  co_return running() == 0;
}

}  // namespace kvtier
