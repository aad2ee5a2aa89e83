// `kvtier version`: which build this is and which protocol it speaks.
#ifndef KVTIER_CLI_VERSION_H_
#define KVTIER_CLI_VERSION_H_

#include "cli/arguments.h"
#include "cli/outcome.h"

namespace kvtier::cli {

Outcome RunVersion(const Arguments& arguments);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_VERSION_H_
