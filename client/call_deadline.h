// What a caller's timeout becomes: gRPC's deadline, and the shorter time that the
// agent is told, so that a late answer is a short prefix and not no answer.
#ifndef KVTIER_CLIENT_CALL_DEADLINE_H_
#define KVTIER_CLIENT_CALL_DEADLINE_H_

#include <algorithm>
#include <cstdint>

#include "absl/time/time.h"
#include "grpc/support/time.h"
#include "grpcpp/client_context.h"

namespace kvtier {

// A deadline on the monotone clock: a step of the date neither ends nor stretches it.
inline void SetTimeout(grpc::ClientContext* context, absl::Duration timeout) {
  context->set_deadline(
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_micros(absl::ToInt64Microseconds(timeout), GPR_TIMESPAN)));
}

// What a call that must not wait gives the agent to say what is here now.
inline constexpr absl::Duration kAnswerTime = absl::Milliseconds(20);

// Returns how long the caller waits for the answer. REQUIRES: `timeout` is not negative.
inline absl::Duration AnswerTimeout(absl::Duration timeout) {
  return timeout > absl::ZeroDuration() ? timeout : kAnswerTime;
}

// Milliseconds for the request's timeout_ms: `timeout` less the time the answer takes
// to come back, an eighth of it, between 1 and 20 ms.
inline uint32_t AgentTimeoutMs(absl::Duration timeout) {
  const absl::Duration way = std::clamp(timeout / 8, absl::Milliseconds(1), absl::Milliseconds(20));
  return static_cast<uint32_t>(
      absl::ToInt64Milliseconds(std::max(timeout - way, absl::ZeroDuration())));
}

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CALL_DEADLINE_H_
