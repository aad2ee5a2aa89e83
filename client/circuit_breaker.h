// CircuitBreaker decides whether a call may go to the agent, so that an agent that
// hangs costs a worker a few timeouts and not one for each call.
//
//   closed --(failures_to_open failures in a row)--> open
//   open ----(backoff is over, TakeProbe)----------> half-open
//   half-open --(probe failed)---------------------> open, with a longer backoff
//   half-open --(probe succeeded)------------------> closed, on trial
//
// On trial, the first failed call opens the breaker again, and only a call that succeeds makes the
// backoff short again: an agent that answers probes and nothing else is not retried at full rate.
// The link makes the probes itself; no caller's call becomes a probe.
//
// A short call, of less than kMinJudgedTimeout, that runs out of time is no failure: it says
// more about the load of the machine than about the agent. A row of them with no answer of any
// kind in between puts the agent in doubt, and a probe, which has more time, decides:
//
//   closed --(failures_to_open short calls in a row, for kMinJudgedTimeout)--> doubted
//   doubted --(probe succeeded)--> closed
//   doubted --(probe failed, or failures_to_open failures in a row)--> open
//
// In doubt only short calls are refused: longer ones go to the agent and judge it as before. The
// first doubt's probe is due at once; until a call is answered, the probe of each further doubt is
// due later and later.
//
// Pure: no threads, no clock, no randomness of its own. Not thread-safe.
#ifndef KVTIER_CLIENT_CIRCUIT_BREAKER_H_
#define KVTIER_CLIENT_CIRCUIT_BREAKER_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/backoff.h"

namespace kvtier {

// Shortest timeout whose expiry counts as a failure of the agent.
inline constexpr absl::Duration kMinJudgedTimeout = absl::Milliseconds(10);

struct BreakerOptions {
  int failures_to_open = 3;  // Failures in a row that open the breaker; at least 1.
  absl::Duration min_backoff = absl::Milliseconds(100);  // Wait before the first probe.
  absl::Duration max_backoff = absl::Seconds(5);
  absl::Duration probe_timeout = absl::Milliseconds(250);  // Timeout of one Ping.

  // Errors: kInvalidArgument, naming the field and the value.
  absl::Status Validate() const;
};

class CircuitBreaker {
 public:
  enum class State { kClosed, kDoubted, kOpen, kHalfOpen };

  // REQUIRES: `options` is valid.
  explicit CircuitBreaker(const BreakerOptions& options)
      : failures_to_open_(options.failures_to_open),
        backoff_(options.min_backoff, options.max_backoff),
        doubts_(std::min(kMinJudgedTimeout, options.max_backoff), options.max_backoff) {}

  State state() const { return state_; }
  // Returns whether a caller that would wait for `timeout` may call now.
  bool Admits(absl::Duration timeout) const {
    return state_ == State::kClosed || (state_ == State::kDoubted && timeout >= kMinJudgedTimeout);
  }
  // Returns when TakeProbe() will return true; InfiniteFuture unless open or doubted.
  absl::Time probe_time() const { return probe_time_; }

  // Returns how often the breaker opened since a call was answered: the number of probes and trials
  // that failed.
  int openings() const { return openings_; }

  // Notes that the agent answered a call, whatever it said. Closes the breaker in any state.
  void CallAnswered(absl::Time now);
  // Notes that the agent did not answer a call in time, or not at all. Returns true if this opened
  // the breaker.
  bool CallFailed(absl::Time now, double jitter);
  // Notes that the agent did not answer a short call that began at `began`. Returns true if a doubt
  // began, so that the caller must wake the thread that takes the probe.
  bool ShortCallFailed(absl::Time began, absl::Time now, double jitter);
  // Returns true if a probe is due; it is then in progress until ProbeAnswered() or ProbeFailed().
  bool TakeProbe(absl::Time now);
  // ProbeAnswered() and ProbeFailed() end the probe. REQUIRES for both: a probe was taken. If a
  // call was answered meanwhile, the probe's result is ignored.
  void ProbeAnswered(absl::Time now);
  // Returns true if this opened a breaker that let calls through.
  bool ProbeFailed(absl::Time now, double jitter);

 private:
  void Open(absl::Time now, double jitter);
  // Returns whether a probe is in progress whose result still counts.
  bool Probing() const {
    return state_ == State::kHalfOpen ||
           (state_ == State::kDoubted && probe_time_ == absl::InfiniteFuture());
  }

  int failures_to_open_;
  Backoff backoff_;
  Backoff doubts_;  // Wait before the probe of a doubt that is not the first.
  State state_ = State::kClosed;
  int openings_ = 0;        // Openings since a call was answered.
  int failures_ = 0;        // Failures in a row, while calls are let through.
  int short_failures_ = 0;  // Short calls in a row, begun after last_answer_, that failed.
  absl::Time short_since_;  // Time at which the first of these calls began.
  bool doubted_ = false;    // Whether there was a doubt since a call was answered.
  absl::Time last_answer_ = absl::InfinitePast();  // Time of the last answer to a call or a probe.
  absl::Time probe_time_ = absl::InfiniteFuture();
};

// Returns "closed", "doubted", "open" or "half-open", for people.
const char* BreakerStateName(CircuitBreaker::State state);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CIRCUIT_BREAKER_H_
