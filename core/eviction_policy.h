// EvictionPolicy names the order in which blocks leave a tier that is full. Every tier has its own.
#ifndef KVTIER_CORE_EVICTION_POLICY_H_
#define KVTIER_CORE_EVICTION_POLICY_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kvtier {

enum class EvictionPolicy : uint8_t {
  kLearnt,    // The block whose room is worth the least, as its uses so far tell; LRU where that is
              // better.
  kLru,       // The block used longest ago.
  kFifo,      // The block that came first.
  kPriority,  // The block of the lowest priority, and of those the one used longest ago.
};

// The policy of each tier.
struct EvictionPolicies {
  EvictionPolicy gpu = EvictionPolicy::kLearnt;
  EvictionPolicy host = EvictionPolicy::kLearnt;
  EvictionPolicy disk = EvictionPolicy::kLearnt;  // Policy for blocks that reclaim appends again.
};

// Returns "learnt", "lru", "fifo" or "priority".
absl::string_view EvictionPolicyName(EvictionPolicy policy);
// Errors: kInvalidArgument, there is no policy of that name.
absl::StatusOr<EvictionPolicy> ParseEvictionPolicy(absl::string_view name);

}  // namespace kvtier

#endif  // KVTIER_CORE_EVICTION_POLICY_H_
