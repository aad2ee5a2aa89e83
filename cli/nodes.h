// `kvtier nodes`: the nodes that the coordinator knows, and what they say they hold.
#ifndef KVTIER_CLI_NODES_H_
#define KVTIER_CLI_NODES_H_

#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

Outcome RunNodes(const Arguments& arguments);

// Returns which of two agents is served and which is not, for a node with a namesake_address.
std::string NamesakeText(const v1::NodeReport& node);
// Returns what is not as it should be with a coordinator; empty: it is well.
std::vector<std::string> Complaints(const v1::CoordinatorStatusResponse& status);
std::string NodesTable(const v1::CoordinatorStatusResponse& status);
std::string NodesJson(const v1::CoordinatorStatusResponse& status);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_NODES_H_
