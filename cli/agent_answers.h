// These functions ask agents for their status and print what they answered: for people a section
// for each agent, for programs an element of `agents`.
#ifndef KVTIER_CLI_AGENT_ANSWERS_H_
#define KVTIER_CLI_AGENT_ANSWERS_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using AgentAnswers = std::vector<Answer<v1::AgentStatusResponse>>;

// Returns the status of every agent that the command line names.
AgentAnswers AskAgents(const Arguments& arguments);

// Returns AgentsJson() with each agent's node_id; `body` adds its members to the agent's object.
std::string StatusesJson(const AgentAnswers& answers,
                         absl::FunctionRef<void(const v1::AgentStatusResponse&, JsonWriter*)> body);

// Returns the answers in the asked format, and the exit code that they amount to.
Outcome AgentsOutcome(const Arguments& arguments, const AgentAnswers& answers,
                      absl::FunctionRef<std::string(const AgentAnswers&)> table,
                      absl::FunctionRef<std::string(const AgentAnswers&)> json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_AGENT_ANSWERS_H_
