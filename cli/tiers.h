// `kvtier tiers`: what each tier of the asked agents holds and did.
#ifndef KVTIER_CLI_TIERS_H_
#define KVTIER_CLI_TIERS_H_

#include <string>

#include "cli/agent_answers.h"
#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

Outcome RunTiers(const Arguments& arguments);

// Returns, for people, a column for each tier and a row for each figure.
std::string TiersTable(const AgentAnswers& answers);
std::string TiersJson(const AgentAnswers& answers);

// Returns "gpu", "host", "disk", or "tier 7" for one that a newer agent has.
std::string WireTierName(v1::Tier tier);

// Writes "tiers" and "gpus" into the innermost object.
void WriteTiers(const v1::AgentStatusResponse& status, JsonWriter* json);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TIERS_H_
