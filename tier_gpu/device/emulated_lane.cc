#include "tier_gpu/device/emulated_lane.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

Ticket EmulatedLane::Add(EmulatedOperation operation) {
  KVT_CHECK(!full());
  operations_.push_back(std::move(operation));
  return {.lane = lane_, .sequence = ++submitted_};
}

absl::Time EmulatedLane::NextEvent(absl::Time now) const {
  if (operations_.empty()) return absl::InfiniteFuture();
  const EmulatedOperation& front = operations_.front();
  // A stall holds back an operation that has not begun.
  if (!begun_) {
    return stalled_ ? absl::InfiniteFuture() : std::max(front.submitted, free_at_);
  }
  if (front.ready) return front.ready() ? std::max(front.began, now) : absl::InfiniteFuture();
  if (next_step_ < front.steps.size()) return front.began + front.run * front.steps[next_step_].at;
  return front.began + front.run;
}

void EmulatedLane::RunEvent(absl::Time now) {
  EmulatedOperation& front = operations_.front();
  if (!begun_) return Begin(std::max(front.submitted, free_at_));
  if (front.ready) return End(now);
  if (next_step_ < front.steps.size()) {
    // Takes the step out of the lane before it runs, because the step may call Abandon().
    const std::function<void()> act = std::move(front.steps[next_step_++].act);
    return act();
  }
  End(front.began + front.run);
}

void EmulatedLane::Begin(absl::Time when) {
  begun_ = true;
  next_step_ = 0;
  EmulatedOperation& front = operations_.front();
  front.began = when;
  if (front.begin) front.begin(&front);
  KVT_CHECK(front.run >= absl::ZeroDuration());
}

void EmulatedLane::End(absl::Time when) {
  EmulatedOperation& front = operations_.front();
  if (front.end) front.end();
  if (!front.status.ok()) ++failures_;
  ended_.push_back({.ticket = {.lane = lane_, .sequence = ++done_},
                    .status = front.status,
                    .device = when - (begun_ ? front.began : when)});
  operations_.pop_front();
  begun_ = false;
  free_at_ = when;
}

bool EmulatedLane::TakeEnded(Completion* completion) {
  if (ended_.empty()) return false;
  *completion = std::move(ended_.front());
  ended_.pop_front();
  if (!completion->status.ok()) ++reported_failures_;
  return true;
}

bool EmulatedLane::Resume(absl::Time now) {
  if (!std::exchange(stalled_, false)) return false;
  free_at_ = std::max(free_at_, now);
  return true;
}

std::vector<EmulatedOperation> EmulatedLane::Abandon(absl::Time now, const absl::Status& status) {
  std::vector<EmulatedOperation> left;
  while (!operations_.empty()) {
    EmulatedOperation& front = operations_.front();
    EmulatedOperation& rest = left.emplace_back();
    rest.submitted = front.submitted;
    if (!begun_) rest.begin = std::move(front.begin);
    const auto done = static_cast<ptrdiff_t>(begun_ ? next_step_ : 0);
    rest.steps.assign(front.steps.begin() + done, front.steps.end());
    front.status = status;
    front.end = nullptr;
    End(now);
  }
  return left;
}

}  // namespace kvtier
