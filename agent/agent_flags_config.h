// kvtier-agent's command line: every flag, with its default and what it is for.
#ifndef KVTIER_AGENT_AGENT_FLAGS_CONFIG_H_
#define KVTIER_AGENT_AGENT_FLAGS_CONFIG_H_

#include "absl/status/statusor.h"
#include "agent/agent_config.h"

namespace kvtier {

// Returns the configuration that the flags give, after absl::ParseCommandLine(). Errors:
// AgentConfig::Validate()'s; kInvalidArgument, naming the flag and its value.
absl::StatusOr<AgentConfig> ConfigFromFlags();

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_FLAGS_CONFIG_H_
