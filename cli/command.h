// RunCommand is `kvtier` without its process: words in, text and exit code out.
#ifndef KVTIER_CLI_COMMAND_H_
#define KVTIER_CLI_COMMAND_H_

#include <span>
#include <string>

#include "cli/outcome.h"
#include "cli/progress.h"

namespace kvtier::cli {

// Runs the command line `words`, which lacks the program's name. Verbs that take long call
// `progress`.
Outcome RunCommand(std::span<const std::string> words, const Progress& progress = {});

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_COMMAND_H_
