// `kvtier status`: agents and their coordinator on one screen.
#ifndef KVTIER_CLI_STATUS_H_
#define KVTIER_CLI_STATUS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/agent_answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

struct StatusReport {
  AgentAnswers agents;
  // By address, of agents that say what their tenants have: those on their own machine.
  std::map<std::string, v1::ListTenantsResponse> tenants;
  std::optional<Answer<v1::CoordinatorStatusResponse>> coordinator;  // If it was asked.
};

Outcome RunStatus(const Arguments& arguments);

std::string StatusTable(const StatusReport& report);
std::string StatusJson(const StatusReport& report);

// Returns what is not as it should be with an agent, worst first; empty: it is well.
std::vector<std::string> Complaints(const v1::AgentStatusResponse& status);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_STATUS_H_
