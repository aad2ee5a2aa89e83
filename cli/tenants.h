// `kvtier tenants [list]`: what each tenant of the asked agents has, and what it is guaranteed; of
// a coordinator the cluster's settings.
#ifndef KVTIER_CLI_TENANTS_H_
#define KVTIER_CLI_TENANTS_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using TenantAnswers = std::vector<Answer<v1::ListTenantsResponse>>;

Outcome RunTenants(const Arguments& arguments);

// Return text for people, with a section for each agent and a row for each tenant, and JSON.
std::string TenantsTable(const TenantAnswers& answers);
std::string TenantsJson(const TenantAnswers& answers);
// Return the same for a coordinator's answer, which has only settings.
std::string ClusterTenantsTable(const v1::ListTenantsResponse& response);
std::string ClusterTenantsJson(const v1::ListTenantsResponse& response);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANTS_H_
