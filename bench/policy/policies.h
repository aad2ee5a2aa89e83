// The policies that traces are replayed with, by name.
#ifndef KVTIER_BENCH_POLICY_POLICIES_H_
#define KVTIER_BENCH_POLICY_POLICIES_H_

#include <memory>
#include <span>

#include "absl/strings/string_view.h"
#include "bench/policy/replayed_cache.h"

namespace kvtier::bench {

struct Policy {
  const char* name;
  // Makes an empty cache for `trace`, which it may keep a reference to, where attention costs as
  // much as all else at `attention_tokens` tokens; 0: a token costs the same anywhere. REQUIRES:
  // capacity > 0.
  std::unique_ptr<ReplayedCache> (*make)(const Trace& trace, size_t capacity,
                                         uint32_t attention_tokens);
  bool needs_hints = false;  // It is no other than the one before where a trace has none.
};

// The policy of kvtier, without and with what engines can tell, the one that others are compared
// with, and the bound of all.
inline constexpr absl::string_view kOwnPolicy = "learnt";
inline constexpr absl::string_view kReferencePolicy = "lru";
inline constexpr absl::string_view kBound = "min";

// Returns all policies, in the order in which tables show them.
std::span<const Policy> Policies();
// Returns the policy of this name; null: there is none.
const Policy* FindPolicy(absl::string_view name);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_POLICIES_H_
