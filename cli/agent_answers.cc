#include "cli/agent_answers.h"

#include "cli/admin_client.h"

namespace kvtier::cli {

AgentAnswers AskAgents(const Arguments& arguments) {
  return AskAll<v1::AgentStatusResponse>(arguments.agents, [&](const std::string& address) {
    return AgentAdmin(address, arguments.timeout).Status();
  });
}

std::string StatusesJson(
    const AgentAnswers& answers,
    absl::FunctionRef<void(const v1::AgentStatusResponse&, JsonWriter*)> body) {
  return AgentsJson(answers, [&](const v1::AgentStatusResponse& response, JsonWriter* json) {
    json->Text("node_id", response.node_id());
    body(response, json);
  });
}

Outcome AgentsOutcome(const Arguments& arguments, const AgentAnswers& answers,
                      absl::FunctionRef<std::string(const AgentAnswers&)> table,
                      absl::FunctionRef<std::string(const AgentAnswers&)> json) {
  Verdict verdict;
  for (const auto& answer : answers) verdict.Add(answer);
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? json(answers) : table(answers)};
}

}  // namespace kvtier::cli
