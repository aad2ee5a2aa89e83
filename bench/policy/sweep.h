// A sweep replays one trace with several policies at several capacities, in one tier, and with some
// of them in host memory above a disk.
#ifndef KVTIER_BENCH_POLICY_SWEEP_H_
#define KVTIER_BENCH_POLICY_SWEEP_H_

#include <string>
#include <vector>

#include "bench/policy/policies.h"
#include "bench/policy/replay.h"
#include "bench/two_tier_cache.h"
#include "core/eviction_policy.h"

namespace kvtier::bench {

// Plan of a sweep. Capacities are in percent of the blocks of the trace.
struct SweepPlan {
  std::vector<const Policy*> policies;
  std::vector<double> capacities = {0.2, 0.5, 1, 2, 5, 10, 20};
  std::vector<double> drams = {0.5, 5};
  // Same meaning as in EvictionOrder; 0: a token costs the same anywhere.
  uint32_t attention_tokens = 0;
};

struct OneTierRow {
  double percent = 0;
  size_t blocks = 0;
  std::vector<ReplayedHits> hits;  // Hits of each policy of the sweep.
};

struct TwoTierRow {
  double dram_percent = 0;
  double disk_percent = 0;
  EvictionPolicy host = EvictionPolicy::kLearnt;
  EvictionPolicy disk = EvictionPolicy::kLearnt;
  ReplayResult result;
};

struct Sweep {
  std::string trace;
  size_t requests = 0;
  size_t blocks = 0;
  double unlimited_percent = 0;  // Percentage of tokens that an unbounded cache hits.
  uint32_t attention_tokens = 0;
  std::vector<const Policy*> policies;
  std::vector<OneTierRow> one_tier;
  std::vector<TwoTierRow> two_tiers;
};

// Ratio of the disk's room to that of host memory in two tiers.
inline constexpr double kDiskForDram = 6;

// Runs the sweep, and shows its progress. Leaves out two tiers whose disk would be smaller than the
// smallest that its model permits.
Sweep RunSweep(const Trace& trace, const SweepPlan& plan);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_SWEEP_H_
