#include "core/event.h"

#include "core/check.h"

namespace kvtier {

Event::~Event() { KVT_CHECK(waiters_.empty()); }

void Event::Set() {
  if (set_) return;
  set_ = true;
  while (!waiters_.empty()) {
    Waiter* waiter = waiters_.front();
    waiters_.pop_front();
    waiter->linked_ = false;
    if (waiter->timer_) executor_->Cancel(*waiter->timer_);
    // A timer, not Post(): the waiter's destructor can take it back.
    waiter->timer_ = executor_->PostAt(executor_->Now(), [waiter] {
      waiter->timer_.reset();
      waiter->awaiting_.resume();
    });
  }
}

Event::Waiter Event::WaitUntil(absl::Time deadline) { return Waiter(this, deadline); }

Event::Waiter::~Waiter() {
  if (linked_) event_->waiters_.erase(place_);
  if (timer_) event_->executor_->Cancel(*timer_);
}

void Event::Waiter::await_suspend(std::coroutine_handle<> awaiting) {
  awaiting_ = awaiting;
  place_ = event_->waiters_.insert(event_->waiters_.end(), this);
  linked_ = true;
  if (deadline_ == absl::InfiniteFuture()) return;
  timer_ = event_->executor_->PostAt(deadline_, [this] {
    timer_.reset();
    event_->waiters_.erase(place_);
    linked_ = false;
    awaiting_.resume();
  });
}

}  // namespace kvtier
