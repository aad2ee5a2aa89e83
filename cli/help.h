// The text of `kvtier help`.
#ifndef KVTIER_CLI_HELP_H_
#define KVTIER_CLI_HELP_H_

#include <string>

namespace kvtier::cli {

// Returns every verb and option.
std::string HelpText();

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_HELP_H_
