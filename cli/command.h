// RunCommand is `kvtier` without its process: words in, text and exit code out.
#ifndef KVTIER_CLI_COMMAND_H_
#define KVTIER_CLI_COMMAND_H_

#include <span>
#include <string>

#include "cli/outcome.h"

namespace kvtier::cli {

// `words` are the command line without the program's name.
Outcome RunCommand(std::span<const std::string> words);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_COMMAND_H_
