// `kvtier doctor`: why workers of this node do not share, and what is wrong with the machine, each
// line with what to do.
#ifndef KVTIER_CLI_DOCTOR_H_
#define KVTIER_CLI_DOCTOR_H_

#include <string>

#include "cli/arguments.h"
#include "cli/finding.h"
#include "cli/node_facts.h"
#include "cli/outcome.h"

namespace kvtier::cli {

// Returns kFailed when a finding is a failure; warnings do not count.
Outcome RunDoctor(const Arguments& arguments);

// Returns all findings that follow from the facts: sockets, machine, sharing, in this order.
Findings DoctorFindings(const NodeFacts& facts);

std::string DoctorTable(const Findings& findings);
std::string DoctorJson(const Findings& findings);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_DOCTOR_H_
