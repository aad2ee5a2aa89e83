#include "agent/sessions/fair_turns.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

void FairTurns::Run(size_t cost, WhoseCall whose, Executor::Closure begin) {
  on_their_way_.fetch_add(1, std::memory_order_relaxed);
  executor_->RunOrPost([this, cost, whose = std::move(whose), begin = std::move(begin)]() mutable {
    Arrive(cost, &whose, std::move(begin));
  });
}

// Uses no member after begin(): the call may be the last one that keeps this object alive.
void FairTurns::Arrive(size_t cost, WhoseCall* whose, Executor::Closure begin) {
  const bool is_last = on_their_way_.fetch_sub(1, std::memory_order_relaxed) == 1;
  if (is_last && waiting_ == 0) return begin();
  const std::optional<DomainId> domain = (*whose)();
  if (!domain.has_value()) return begin();
  Enter(*domain).calls.push_back({.cost = std::min(cost, kTurnCost), .begin = std::move(begin)});
  if (waiting_++ == 0) PostNext();
}

FairTurns::Queue& FairTurns::Enter(DomainId domain) {
  Queue& queue = QueueOf(domain);
  if (queue.empty()) order_.Enter(static_cast<size_t>(domain));
  return queue;
}

bool FairTurns::OthersWait(DomainId domain) {
  if (queues_.size() == 1) return false;
  const Queue& queue = QueueOf(domain);
  return on_their_way_.load(std::memory_order_relaxed) > 0 ||
         waiting_ > queue.paused.size() + queue.calls.size();
}

void FairTurns::Pause::await_suspend(std::coroutine_handle<> awaiting) {
  awaiting_ = awaiting;
  turns_->Enter(domain_).paused.push_back(this);
  // Charges the call now, because it has had turns without paying: calls that arrive meanwhile go
  // first.
  paid_ = turns_->order_.Charge(static_cast<size_t>(domain_), kTurnCost);
  if (turns_->waiting_++ == 0) turns_->PostNext();
}

FairTurns::Pause::~Pause() {
  if (!awaiting_) return;
  std::erase(turns_->QueueOf(domain_).paused, this);
  --turns_->waiting_;
}

void FairTurns::PostNext() {
  executor_->Post([this, is_there = std::weak_ptr(is_there_)] {
    if (!is_there.expired()) BeginNext();
  });
}

void FairTurns::BeginNext() {
  const std::optional<size_t> domain =
      order_.Next([this](size_t each) { return !queues_[each].empty(); });
  if (!domain.has_value()) return;  // The wait was given up.
  Queue* const next = &queues_[*domain];
  const bool is_last = --waiting_ == 0;
  // The next turn is posted last, behind the calls that arrived meanwhile and are posted by now.
  if (next->paused.empty()) {
    Waiting call = std::move(next->calls.front());
    next->calls.pop_front();
    order_.Begin(*domain);
    order_.Charge(*domain, call.cost);
    call.begin();
  } else {
    Pause* const pause = next->paused.front();
    next->paused.pop_front();
    order_.Begin(*domain, pause->paid_);
    std::exchange(pause->awaiting_, nullptr).resume();
  }
  if (!is_last) PostNext();
}

}  // namespace kvtier
