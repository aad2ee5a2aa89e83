// Finding is one result of `kvtier doctor`: the thing that was looked at, its state, and what to do
// about it.
#ifndef KVTIER_CLI_FINDING_H_
#define KVTIER_CLI_FINDING_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kvtier::cli {

enum class Health { kOk, kWarn, kFail };

// A space that a finding is about, as --space-digest takes it.
struct SpaceOfFinding {
  std::string digest;  // Whole: 64 hexadecimal digits.
  uint32_t tensor_rank = 0;
  uint32_t pipeline_rank = 0;
};

struct Finding {
  std::string check;  // Thing that was looked at: "socket kvtier.sock". Stable, for scripts.
  Health health = Health::kOk;
  std::string detail;                       // Text of the result, with the values.
  std::string remedy;                       // Remedy, empty if nothing is wrong.
  std::vector<SpaceOfFinding> spaces = {};  // Shards of the one space that it is about, if any.
};

using Findings = std::vector<Finding>;

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_FINDING_H_
