#include "client/circuit_breaker.h"

#include "absl/strings/str_cat.h"

namespace kvtier {

absl::Status BreakerOptions::Validate() const {
  if (failures_to_open < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("breaker.failures_to_open is ", failures_to_open, "; must be at least 1"));
  }
  if (min_backoff <= absl::ZeroDuration() || max_backoff < min_backoff) {
    return absl::InvalidArgumentError(absl::StrCat(
        "breaker.min_backoff is ", absl::FormatDuration(min_backoff), " and max_backoff ",
        absl::FormatDuration(max_backoff), "; must be positive and in this order"));
  }
  if (probe_timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "breaker.probe_timeout is ", absl::FormatDuration(probe_timeout), "; must be positive"));
  }
  return absl::OkStatus();
}

void CircuitBreaker::CallAnswered() {
  state_ = State::kClosed;
  failures_ = 0;
  probe_time_ = absl::InfiniteFuture();
  backoff_.Reset();
}

bool CircuitBreaker::CallFailed(absl::Time now, double jitter) {
  // A call that began before the breaker opened says nothing new.
  if (state_ != State::kClosed) return false;
  if (++failures_ < failures_to_open_) return false;
  Open(now, jitter);
  return true;
}

bool CircuitBreaker::TakeProbe(absl::Time now) {
  if (state_ != State::kOpen || now < probe_time_) return false;
  state_ = State::kHalfOpen;
  probe_time_ = absl::InfiniteFuture();
  return true;
}

void CircuitBreaker::ProbeAnswered() {
  if (state_ != State::kHalfOpen) return;
  state_ = State::kClosed;
  failures_ = failures_to_open_ - 1;  // On trial.
}

void CircuitBreaker::ProbeFailed(absl::Time now, double jitter) {
  if (state_ != State::kHalfOpen) return;
  Open(now, jitter);
}

void CircuitBreaker::Open(absl::Time now, double jitter) {
  state_ = State::kOpen;
  failures_ = 0;
  probe_time_ = now + backoff_.Next(jitter);
}

const char* BreakerStateName(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed:
      return "closed";
    case CircuitBreaker::State::kOpen:
      return "open";
    case CircuitBreaker::State::kHalfOpen:
      return "half-open";
  }
  return "unknown";
}

}  // namespace kvtier
