#include "core/eviction_policy.h"

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

constexpr EvictionPolicy kAllPolicies[] = {EvictionPolicy::kLearnt, EvictionPolicy::kLru,
                                           EvictionPolicy::kFifo, EvictionPolicy::kPriority};

}  // namespace

absl::string_view EvictionPolicyName(EvictionPolicy policy) {
  switch (policy) {
    case EvictionPolicy::kLearnt:
      return "learnt";
    case EvictionPolicy::kLru:
      return "lru";
    case EvictionPolicy::kFifo:
      return "fifo";
    case EvictionPolicy::kPriority:
      break;
  }
  return "priority";
}

absl::StatusOr<EvictionPolicy> ParseEvictionPolicy(absl::string_view name) {
  for (const EvictionPolicy policy : kAllPolicies) {
    if (EvictionPolicyName(policy) == name) return policy;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is no eviction policy; must be learnt, lru, fifo or priority"));
}

}  // namespace kvtier
