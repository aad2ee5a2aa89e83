// The report of kvtier-fsck, as text for people and as JSON for machines.
#ifndef KVTIER_AGENT_DISK_FSCK_REPORT_H_
#define KVTIER_AGENT_DISK_FSCK_REPORT_H_

#include <string>

#include "tier_disk/fsck.h"

namespace kvtier {

// Returns a table, and a line for each finding.
std::string FsckTable(const std::string& directory, const FsckReport& report);
// Returns one JSON object; "schema_version" as in `kvtier -o json`.
std::string FsckJson(const std::string& directory, const FsckReport& report);

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_FSCK_REPORT_H_
