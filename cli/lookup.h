// `kvtier lookup`: where a block is, as the agents say, which know it, and as the coordinator says,
// which has hints.
#ifndef KVTIER_CLI_LOOKUP_H_
#define KVTIER_CLI_LOOKUP_H_

#include <string>
#include <vector>

#include "cli/answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

using LookupAnswers = std::vector<Answer<v1::LookupResponse>>;

// Returns kNotFound when all answered and no node has a copy.
Outcome RunLookup(const Arguments& arguments);

std::string LookupTable(const LookupAnswers& answers);
std::string LookupJson(const LookupAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_LOOKUP_H_
