// Findings about the machine: what keeps an agent from working well, or at all.
#ifndef KVTIER_CLI_MACHINE_FINDINGS_H_
#define KVTIER_CLI_MACHINE_FINDINGS_H_

#include <optional>
#include <string>
#include <utility>

#include "cli/finding.h"
#include "cli/node_facts.h"

namespace kvtier::cli {

// Returns the findings about the machine. Pure.
Findings MachineFindings(const NodeFacts& facts);

// Returns major and minor of a kernel's release ("6.1.0-18-amd64"); nullopt: it is none.
std::optional<std::pair<int, int>> KernelVersion(const std::string& release);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_MACHINE_FINDINGS_H_
