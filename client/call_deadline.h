// These functions turn a caller's timeout into gRPC's deadline and into the shorter time that the
// agent is given, so that an agent that runs out of time still answers with a shorter prefix.
#ifndef KVTIER_CLIENT_CALL_DEADLINE_H_
#define KVTIER_CLIENT_CALL_DEADLINE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"

namespace kvtier {

// Sets a deadline on the monotonic clock, which a change of the system's date does not move.
inline void SetTimeout(grpc::ClientContext* context, absl::Duration timeout) {
  context->set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN)));
}

// Time that the agent has to answer a call that must not wait.
inline constexpr absl::Duration kAnswerTime = absl::Milliseconds(20);

// Returns how long the caller waits for the answer. REQUIRES: `timeout` is not negative.
inline absl::Duration AnswerTimeout(absl::Duration timeout) {
  return timeout > absl::ZeroDuration() ? timeout : kAnswerTime;
}

// Returns the request's timeout_ms: `timeout` less the time that the answer takes to come back,
// which is an eighth of it, between 1 and 20 ms, or a fiftieth of it if that is longer.
inline uint32_t AgentTimeoutMs(absl::Duration timeout) {
  const absl::Duration way = std::max(
      std::clamp(timeout / 8, absl::Milliseconds(1), absl::Milliseconds(20)), timeout / 50);
  return static_cast<uint32_t>(
      absl::ToInt64Milliseconds(std::max(timeout - way, absl::ZeroDuration())));
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CALL_DEADLINE_H_
