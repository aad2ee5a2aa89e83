// The help of `kvtier`, its manual pages and its completion, all written from the tables of verbs
// and options.
#ifndef KVTIER_CLI_HELP_H_
#define KVTIER_CLI_HELP_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.h"
#include "cli/outcome.h"
#include "cli/verbs.h"

namespace kvtier::cli {

// Returns all verbs and options, a line each, and the exit codes.
std::string HelpText();
// Returns one verb's use, what it does, its options and an example.
std::string VerbHelpText(const VerbEntry& verb);

// Returns the name of each manual page ("kvtier-tenants-set.1") and its text in troff.
std::vector<std::pair<std::string, std::string>> ManPages();
// Returns the functions by which bash completes verbs, options, and the names of files.
std::string BashCompletion();

// Runs `kvtier help`, `kvtier man DIR` and `kvtier completion bash`.
Outcome RunHelp(const Arguments& arguments);
Outcome RunMan(const Arguments& arguments);
Outcome RunCompletion(const Arguments& arguments);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_HELP_H_
