// Shows the results of sweeps: as tables for people, as figures and as JSON for programs.
#ifndef KVTIER_BENCH_POLICY_SWEEP_REPORT_H_
#define KVTIER_BENCH_POLICY_SWEEP_REPORT_H_

#include <span>
#include <string>

#include "bench/policy/sweep.h"

namespace kvtier::bench {

// Prints the tables of one trace.
void PrintTables(const Sweep& sweep);

// Prints the last lines of the benchmark: the hits of kvtier's policy and of the bound at each
// capacity, with the ratio to the reference policy's. REQUIRES: the sweeps have the reference
// policy.
void PrintFigures(std::span<const Sweep> sweeps);

// Returns the sweeps as JSON:
//   {"schema": 1, "traces": [{
//     "name", "requests", "blocks", "unlimited_hit_percent",
//     "one_tier": [{"capacity_percent", "capacity_blocks",
//                   "policies": {NAME: {"hit_percent", "insertions_per_block"}}}],
//     "two_tiers": [{"dram_percent", "disk_percent", "policy" (of host memory), "disk_policy",
//                    "dram_hit_percent", "disk_hit_percent", "writes_per_block",
//                    "writes_per_served"}]}]}
// Fields may be added; a change of their meaning has another schema.
std::string ToJson(std::span<const Sweep> sweeps);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_SWEEP_REPORT_H_
