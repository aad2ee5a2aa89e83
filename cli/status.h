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
  // Tenants by the address of their agent. Only agents on this machine report them.
  std::map<std::string, v1::ListTenantsResponse> tenants;
  // Answer of the coordinator, if it was asked.
  std::optional<Answer<v1::CoordinatorStatusResponse>> coordinator;
};

Outcome RunStatus(const Arguments& arguments);

std::string StatusTable(const StatusReport& report);
std::string StatusJson(const StatusReport& report);

// Returns what is not as it should be with an agent, worst first; empty: it is well.
std::vector<std::string> Complaints(const v1::AgentStatusResponse& status);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_STATUS_H_
