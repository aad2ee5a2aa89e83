#include "client/circuit_breaker.h"

#include <utility>

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

void CircuitBreaker::CallAnswered(absl::Time now) {
  state_ = State::kClosed;
  failures_ = 0;
  short_failures_ = 0;
  doubted_ = false;
  openings_ = 0;
  last_answer_ = now;
  probe_time_ = absl::InfiniteFuture();
  backoff_.Reset();
  doubts_.Reset();
}

bool CircuitBreaker::CallFailed(absl::Time now, double jitter) {
  // A call that began before the breaker opened says nothing new.
  if (state_ != State::kClosed && state_ != State::kDoubted) return false;
  if (++failures_ < failures_to_open_) return false;
  Open(now, jitter);
  return true;
}

bool CircuitBreaker::ShortCallFailed(absl::Time began, absl::Time now, double jitter) {
  // A call that was in progress when the agent last answered says nothing about the time after
  // that.
  if (state_ != State::kClosed || began < last_answer_) return false;
  if (short_failures_++ == 0) short_since_ = began;
  if (short_failures_ < failures_to_open_ || now - short_since_ < kMinJudgedTimeout) return false;
  state_ = State::kDoubted;
  short_failures_ = 0;
  // The first probe is sent at once. If the agent answers probes but no calls, later probes wait.
  probe_time_ = std::exchange(doubted_, true) ? now + doubts_.Next(jitter) : now;
  return true;
}

bool CircuitBreaker::TakeProbe(absl::Time now) {
  if (now < probe_time_) return false;
  if (state_ == State::kOpen) state_ = State::kHalfOpen;
  probe_time_ = absl::InfiniteFuture();
  return true;
}

void CircuitBreaker::ProbeAnswered(absl::Time now) {
  if (!Probing()) return;
  if (state_ == State::kHalfOpen) failures_ = failures_to_open_ - 1;  // One failure opens it.
  state_ = State::kClosed;
  last_answer_ = now;
}

bool CircuitBreaker::ProbeFailed(absl::Time now, double jitter) {
  if (!Probing()) return false;
  const bool let_calls_through = state_ == State::kDoubted;
  Open(now, jitter);
  return let_calls_through;
}

void CircuitBreaker::Open(absl::Time now, double jitter) {
  state_ = State::kOpen;
  ++openings_;
  failures_ = 0;
  short_failures_ = 0;
  probe_time_ = now + backoff_.Next(jitter);
}

const char* BreakerStateName(CircuitBreaker::State state) {
  switch (state) {
    case CircuitBreaker::State::kClosed:
      return "closed";
    case CircuitBreaker::State::kDoubted:
      return "doubted";
    case CircuitBreaker::State::kOpen:
      return "open";
    case CircuitBreaker::State::kHalfOpen:
      return "half-open";
  }
  return "unknown";
}

}  // namespace kvtier
