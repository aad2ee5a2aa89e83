// CallOutcome says how a call to the agent ended.
#ifndef KVTIER_CLIENT_CALL_OUTCOME_H_
#define KVTIER_CLIENT_CALL_OUTCOME_H_

#include <cstdint>

namespace kvtier {

enum class CallOutcome : uint8_t {
  kAnswered,
  kUnreachable,   // There is no agent, it went away, or the breaker is open.
  kLate,          // The agent did not answer in time.
  kSpaceRefused,  // Nothing was sent: the agent does not take the space.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CALL_OUTCOME_H_
