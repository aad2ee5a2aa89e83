// `kvtier evict`: empties a tier of what nobody holds, on the asked agents.
#ifndef KVTIER_CLI_EVICT_H_
#define KVTIER_CLI_EVICT_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using EvictAnswers = std::vector<Answer<v1::EvictTierResponse>>;

// REQUIRES: arguments.tier, and the person said --yes.
Outcome RunEvict(const Arguments& arguments);

std::string EvictTable(const EvictAnswers& answers);
std::string EvictJson(const EvictAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_EVICT_H_
