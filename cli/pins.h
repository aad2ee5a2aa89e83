// `kvtier pins`: the prefixes that tenants keep on the asked agents for a time to live, and their
// end; and `kvtier prefix drop`, which drops a prefix with all that descends from it.
#ifndef KVTIER_CLI_PINS_H_
#define KVTIER_CLI_PINS_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using PinsAnswers = std::vector<Answer<v1::ListTenantsKeptResponse>>;
using EndedAnswers = std::vector<Answer<v1::EndTenantKeptResponse>>;
using DroppedAnswers = std::vector<Answer<v1::DropPrefixResponse>>;

Outcome RunPinsList(const Arguments& arguments);
// REQUIRES: arguments.tenant.
Outcome RunPinsDrop(const Arguments& arguments);
// REQUIRES: arguments.engine_name, and the person said --yes.
Outcome RunPrefixDrop(const Arguments& arguments);

// Returns, for people, a section for each agent, a row for each pin, a line for each tenant.
std::string PinsTable(const PinsAnswers& answers);
std::string PinsJson(const PinsAnswers& answers);
std::string EndedTable(const EndedAnswers& answers);
std::string EndedJson(const EndedAnswers& answers);
std::string DroppedTable(const DroppedAnswers& answers);
std::string DroppedJson(const DroppedAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_PINS_H_
