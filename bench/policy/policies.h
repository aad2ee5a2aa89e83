// Lists the policies with which traces are replayed, by name.
#ifndef KVTIER_BENCH_POLICY_POLICIES_H_
#define KVTIER_BENCH_POLICY_POLICIES_H_

#include <memory>
#include <span>

#include "absl/strings/string_view.h"
#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

struct Policy {
  const char* name;
  // Makes an empty cache for `trace`, to which it may keep a reference. Attention costs as much as
  // everything else at `attention_tokens` tokens; 0: a token costs the same anywhere. REQUIRES:
  // capacity > 0.
  std::unique_ptr<ReplayedCache> (*make)(const Trace& trace, size_t capacity,
                                         uint32_t attention_tokens);
  bool needs_hints = false;  // Whether it equals the policy before it if a trace has no hints.
};

// Names of kvtier's policy, of the policy with which others are compared, and of the bound of all.
inline constexpr absl::string_view kOwnPolicy = "learnt";
inline constexpr absl::string_view kReferencePolicy = "lru";
inline constexpr absl::string_view kBound = "min";

// Returns all policies, in the order in which tables show them.
std::span<const Policy> Policies();
// Returns the policy of this name; null: there is none.
const Policy* FindPolicy(absl::string_view name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_POLICIES_H_
