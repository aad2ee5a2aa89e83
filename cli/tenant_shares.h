// `kvtier tenants describe`, `set` and `drop`: what is said of one tenant, on agents or, when a
// coordinator is named, for all nodes.
#ifndef KVTIER_CLI_TENANT_SHARES_H_
#define KVTIER_CLI_TENANT_SHARES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// One tenant of a node or of the cluster's settings, as both verbs show it.
using TenantAnswer = std::vector<Answer<v1::SetTenantResponse>>;
using DropTenantAnswers = std::vector<Answer<v1::DropTenantResponse>>;

Outcome RunDescribeTenant(const Arguments& arguments);
Outcome RunSetTenant(const Arguments& arguments);
// REQUIRES: the person said --yes.
Outcome RunDropTenant(const Arguments& arguments);

// Returns how often the tenant was refused something because of its share, since the agent's start.
uint64_t ThrottledOf(const v1::TenantReport& tenant);
// Writes as an object where the blocks were that the tenant's workers asked for.
void WriteHits(const v1::TenantHits& hits, JsonWriter* json);
// Returns "acme:write,beta:read": the members of a share group; empty: it is none.
std::string MembersText(const v1::TenantSettings& settings);
// Writes the same as an object, a member for each tenant; nothing where there are none.
void WriteMembers(const v1::TenantSettings& settings, JsonWriter* json);
// Returns "host_guaranteed=10737418240 host_weight=3 members=acme:write"; "nothing" where nothing
// was said.
std::string SettingsText(const v1::TenantSettings& settings);
// Writes the same as an object, a member for each field.
void WriteSettings(const v1::TenantSettings& settings, JsonWriter* json);
// Returns, for people, a section for each program that was asked, with the shares in force, and
// what was said and by whom.
std::string TenantTable(const TenantAnswer& answers);
std::string TenantJson(const TenantAnswer& answers);
std::string DropTenantTable(const DropTenantAnswers& answers);
std::string DropTenantJson(const DropTenantAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TENANT_SHARES_H_
