// These functions find why workers of one node do not share blocks, by comparing the spaces that
// they registered.
#ifndef KVTIER_CLI_SPACE_FINDINGS_H_
#define KVTIER_CLI_SPACE_FINDINGS_H_

#include <string>
#include <vector>

#include "cli/finding.h"
#include "kvtier/v1/admin.pb.h"

namespace kvtier::cli {

// Returns the findings about spaces. Shards of one engine (ranks) count as one space. Each space is
// compared with the nearest one of the same model or of the same weights. Pure.
Findings SpaceFindings(const v1::DescribeSharingResponse& sharing,
                       const v1::AgentStatusResponse& status);

// Returns the names of the fields in which two spaces differ, ranks left out.
std::vector<std::string> DifferingFields(const v1::SpaceSpec& a, const v1::SpaceSpec& b);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_SPACE_FINDINGS_H_
