// `kvtier disk info`: each disk of the asked agents, its health and what it holds.
#ifndef KVTIER_CLI_DISK_INFO_H_
#define KVTIER_CLI_DISK_INFO_H_

#include <string>

#include "cli/agent_answers.h"
#include "cli/arguments.h"
#include "cli/outcome.h"

namespace kvtier::cli {

// DiskReport.health of a disk that is well.
inline constexpr char kHealthyDisk[] = "healthy";

Outcome RunDiskInfo(const Arguments& arguments);

// Returns, for people, a line for each disk, and one with its id and what is said of its health.
std::string DiskInfoTable(const AgentAnswers& answers);
std::string DiskInfoJson(const AgentAnswers& answers);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_DISK_INFO_H_
