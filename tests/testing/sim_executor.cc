#include "tests/testing/sim_executor.h"

#include <algorithm>

namespace kvtier::testing {

SimTime::EventId SimTime::At(absl::Time when, Executor::Closure fn) {
  const EventId id{std::max(when, now_), next_++};
  events_.emplace(id, std::move(fn));
  return id;
}

void SimTime::Cancel(const EventId& id) {
  // The event is destroyed outside of the map, because its closure may own an object that cancels
  // other events.
  const auto doomed = events_.extract(id);
}

bool SimTime::Step() {
  if (events_.empty()) return false;
  const auto next = events_.begin();
  now_ = next->first.first;
  Executor::Closure fn = std::move(next->second);
  events_.erase(next);
  ++events_run_;
  fn();
  return true;
}

void SimTime::RunUntil(absl::Time until) {
  while (!events_.empty() && events_.begin()->first.first <= until) Step();
  now_ = std::max(now_, until);
}

SimExecutor::~SimExecutor() {
  // Closures may own objects that cancel others, so the executor has none when they are destroyed.
  const auto posted = std::exchange(posted_, {});
  for (const auto& [id, event] : posted) time_->Cancel(event);
}

TimerId SimExecutor::PostAt(absl::Time when, Closure fn) {
  const uint64_t id = next_++;
  const SimTime::EventId event = time_->At(when, [this, id, fn = std::move(fn)]() mutable {
    posted_.erase(id);
    fn();
  });
  posted_.emplace(id, event);
  return TimerId{id};
}

void SimExecutor::Cancel(TimerId id) {
  const auto posted = posted_.find(static_cast<uint64_t>(id));
  if (posted == posted_.end()) return;
  const SimTime::EventId event = posted->second;
  posted_.erase(posted);
  time_->Cancel(event);
}

}  // namespace kvtier::testing
