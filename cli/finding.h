// Finding is one line of `kvtier doctor`: what was looked at, how it is, and what to do about it.
#ifndef KVTIER_CLI_FINDING_H_
#define KVTIER_CLI_FINDING_H_

#include <string>
#include <vector>

namespace kvtier::cli {

enum class Health { kOk, kWarn, kFail };

struct Finding {
  std::string check;  // Thing that was looked at: "socket kvtier.sock". Stable, for scripts.
  Health health = Health::kOk;
  std::string detail;  // Text of the result, with the values.
  std::string remedy;  // Empty when all is well.
};

using Findings = std::vector<Finding>;

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_FINDING_H_
