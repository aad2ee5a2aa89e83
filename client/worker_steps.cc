#include "client/worker_steps.h"

#include <utility>

namespace kvtier {

uint64_t WorkerSteps::Begin(std::shared_ptr<const StepPage> page) {
  if (page == nullptr) return 0;
  absl::MutexLock lock(&mu_);
  page->Begin(++begun_);
  open_.push_back({.step = begun_, .page = std::move(page)});
  return begun_;
}

void WorkerSteps::End(uint64_t step) {
  absl::MutexLock lock(&mu_);
  while (!open_.empty() && open_.front().step <= step) {
    open_.front().page->Retire(open_.front().step);
    open_.pop_front();
  }
}

}  // namespace kvtier
