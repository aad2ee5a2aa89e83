// CircuitBreaker decides whether a call may go to the agent, so that an agent that
// hangs costs a worker a few timeouts and not one for each call.
//
//   closed --(failures_to_open failures in a row)--> open
//   open ----(backoff is over, TakeProbe)----------> half-open
//   half-open --(probe failed)---------------------> open, with a longer backoff
//   half-open --(probe succeeded)------------------> closed, on trial
//
// On trial, the first failed call opens it again, and only a call that succeeds
// makes the backoff short again: an agent that answers probes and nothing else is
// not retried at full rate. Probes are the link's own; no caller is made one.
//
// Pure: no threads, no clock, no randomness of its own. Not thread-safe.
#ifndef KVTIER_CLIENT_CIRCUIT_BREAKER_H_
#define KVTIER_CLIENT_CIRCUIT_BREAKER_H_

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/backoff.h"

namespace kvtier {

struct BreakerOptions {
  int failures_to_open = 3;                              // In a row; at least 1.
  absl::Duration min_backoff = absl::Milliseconds(100);  // Before the first probe.
  absl::Duration max_backoff = absl::Seconds(5);
  absl::Duration probe_timeout = absl::Milliseconds(250);  // Of one Ping.

  // Errors: kInvalidArgument, naming the field and the value.
  absl::Status Validate() const;
};

class CircuitBreaker {
 public:
  enum class State { kClosed, kOpen, kHalfOpen };

  // REQUIRES: `options` is valid.
  explicit CircuitBreaker(const BreakerOptions& options)
      : failures_to_open_(options.failures_to_open),
        backoff_(options.min_backoff, options.max_backoff) {}

  State state() const { return state_; }
  // Whether a caller may call now.
  bool Admits() const { return state_ == State::kClosed; }
  // When TakeProbe() will say yes; InfiniteFuture unless open.
  absl::Time probe_time() const { return probe_time_; }

  // The agent answered a call, whatever it said. Closes the breaker in any state.
  void CallAnswered();
  // It did not answer in time, or not at all. True: this opened the breaker.
  bool CallFailed(absl::Time now, double jitter);
  // True when a probe is due: half-open until ProbeAnswered() or ProbeFailed().
  bool TakeProbe(absl::Time now);
  // REQUIRES for both: half-open, unless a late call was answered meanwhile.
  void ProbeAnswered();
  void ProbeFailed(absl::Time now, double jitter);

 private:
  void Open(absl::Time now, double jitter);

  int failures_to_open_;
  Backoff backoff_;
  State state_ = State::kClosed;
  int failures_ = 0;  // In a row, while closed.
  absl::Time probe_time_ = absl::InfiniteFuture();
};

// "closed", "open" or "half-open": for people.
const char* BreakerStateName(CircuitBreaker::State state);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CIRCUIT_BREAKER_H_
