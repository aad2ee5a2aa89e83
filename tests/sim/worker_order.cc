#include "tests/sim/worker_order.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace kvtier::sim {

WorkerOrder::WorkerOrder(std::shared_ptr<AccessChecker> checker, AccessChecker::Timeline agent,
                         const std::string& name)
    : checker_(std::move(checker)), agent_(agent) {
  if (checker_ == nullptr) return;
  host_ = checker_->AddTimeline(absl::StrCat(name, "'s host"));
  compute_ = checker_->AddTimeline(absl::StrCat(name, "'s compute"));
}

WorkerOrder::Clock WorkerOrder::Asks() {
  return checker_ == nullptr ? Clock() : checker_->Fork(host_);
}

void WorkerOrder::AgentReceives(const Clock& asked) {
  if (checker_ != nullptr) checker_->Join(agent_, asked);
}

WorkerOrder::Clock WorkerOrder::AgentAnswers() {
  return checker_ == nullptr ? Clock() : checker_->Fork(agent_);
}

void WorkerOrder::Receives(const Clock& answered) {
  if (checker_ != nullptr) checker_->Join(host_, answered);
}

void WorkerOrder::Launches() {
  if (checker_ != nullptr) checker_->Join(compute_, checker_->Fork(host_));
}

void WorkerOrder::Retires(const SignalWord* word) {
  if (checker_ != nullptr) checker_->Release(compute_, word);
}

void WorkerOrder::Gone() {
  if (checker_ == nullptr) return;
  HungUp();
  checker_->Join(agent_, checker_->Fork(compute_));
}

void WorkerOrder::Touches(By by, Access access, std::span<const std::byte> bytes) {
  if (checker_ != nullptr) checker_->Note(by == By::kHost ? host_ : compute_, access, bytes);
}

}  // namespace kvtier::sim
