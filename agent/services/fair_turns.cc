#include "agent/services/fair_turns.h"

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

// Touches nothing of this behind begin(): the call may be the last one that keeps it alive.
void FairTurns::Arrive(size_t cost, WhoseCall* whose, Executor::Closure begin) {
  const bool is_last = on_their_way_.fetch_sub(1, std::memory_order_relaxed) == 1;
  if (is_last && waiting_ == 0) return begin();
  const std::optional<DomainId> domain = (*whose)();
  if (!domain.has_value()) return begin();
  Queue& queue = queues_.at(static_cast<size_t>(*domain));
  if (queue.calls.empty()) queue.had = std::max(queue.had, level_);
  queue.calls.push_back({.cost = cost, .begin = std::move(begin)});
  if (waiting_++ == 0) PostNext();
}

void FairTurns::BeginNext() {
  Queue* next = nullptr;
  for (Queue& queue : queues_) {
    if (!queue.calls.empty() && (next == nullptr || queue.had < next->had)) next = &queue;
  }
  KVT_CHECK(next != nullptr);
  Waiting call = std::move(next->calls.front());
  next->calls.pop_front();
  level_ = next->had;
  next->had += call.cost;
  const bool is_last = --waiting_ == 0;
  call.begin();
  // The next one is posted last: what arrived meanwhile is posted by now, and has its say first.
  if (!is_last) PostNext();
}

}  // namespace kvtier
