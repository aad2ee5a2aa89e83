#include "cli/agent_answers.h"

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/table.h"
#include "cli/units.h"

namespace kvtier::cli {

AgentAnswers AskAgents(const Arguments& arguments) {
  return AskAll<v1::AgentStatusResponse>(arguments.agents, [&](const std::string& address) {
    return AgentAdmin(address, arguments.timeout).Status();
  });
}

std::string AgentSections(const AgentAnswers& answers,
                          absl::FunctionRef<std::string(const v1::AgentStatusResponse&)> body) {
  std::string out;
  for (const auto& [address, response] : answers) {
    if (!out.empty()) out += "\n";
    if (!response.ok()) {
      absl::StrAppend(&out, "AGENT  ", address, "  ", FailureText(response.status()), "\n");
      continue;
    }
    absl::StrAppend(&out, "AGENT  ", Printable(response->node_id()), "  ", address, "\n",
                    body(*response));
  }
  return out;
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
