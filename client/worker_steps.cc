#include "client/worker_steps.h"

#include <utility>

namespace kvtier {

uint64_t WorkerSteps::Begin(std::shared_ptr<const StepPage> page) {
  return Add(std::move(page), false);
}

uint64_t WorkerSteps::BeginCopy(std::shared_ptr<const StepPage> page) {
  return Add(std::move(page), true);
}

uint64_t WorkerSteps::Add(std::shared_ptr<const StepPage> page, bool copy) {
  if (page == nullptr) return 0;
  absl::MutexLock lock(&mu_);
  page->Begin(++begun_);
  open_.push_back({.step = begun_, .page = std::move(page), .copy = copy});
  return begun_;
}

void WorkerSteps::End(uint64_t step) {
  absl::MutexLock lock(&mu_);
  for (Open& open : open_) {
    if (!open.copy && open.step <= step) open.ended = true;
  }
  Retire();
}

void WorkerSteps::EndCopy(uint64_t step) {
  absl::MutexLock lock(&mu_);
  for (Open& open : open_) {
    if (open.copy && open.step == step) open.ended = true;
  }
  Retire();
}

void WorkerSteps::Retire() {
  while (!open_.empty() && open_.front().ended) {
    open_.front().page->Retire(open_.front().step);
    open_.pop_front();
  }
}

}  // namespace kvtier
