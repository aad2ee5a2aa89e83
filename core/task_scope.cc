#include "core/task_scope.h"

#include <utility>

namespace kvtier {
namespace {

constexpr absl::Duration kIdlePollInterval = absl::Milliseconds(2);
// A timer for each task that ends would wake the executor's thread for each call.
constexpr absl::Duration kReapDelay = absl::Milliseconds(10);

}  // namespace

TaskScope::~TaskScope() {
  if (reaper_) executor_->Cancel(*reaper_);
}

void TaskScope::Spawn(Task<void> task) {
  Reap();
  const auto place = running_.insert(running_.end(), Task<void>());
  *place = Run(std::move(task), place);
  place->handle().resume();
}

Task<void> TaskScope::Run(Task<void> task, std::list<Task<void>>::iterator place) {
  co_await task;
  // A frame cannot free itself while it runs.
  ended_.splice(ended_.end(), running_, place);
  if (reaper_) co_return;
  reaper_ = executor_->PostAt(executor_->Now() + kReapDelay, [this] {
    reaper_.reset();
    Reap();
  });
}

void TaskScope::Reap() {
  std::list<Task<void>> doomed;
  doomed.swap(ended_);  // What their frames own may spawn more.
}

Task<bool> TaskScope::Idle(absl::Time deadline) {
  for (Reap(); running() > 0 && executor_->Now() < deadline; Reap()) {
    co_await SleepUntil(executor_, executor_->Now() + kIdlePollInterval);
  }
  co_return running() == 0;
}

}  // namespace kvtier
