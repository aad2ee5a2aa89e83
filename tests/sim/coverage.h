// Coverage counts the events of simulated worlds. A simulator that never fetches, or whose damage
// nobody meets, proves nothing, so the test compares each count with zero.
#ifndef KVTIER_TESTS_SIM_COVERAGE_H_
#define KVTIER_TESTS_SIM_COVERAGE_H_

#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "agent/agent_stats.h"
#include "core/eviction_policy.h"
#include "core/tier_stats.h"

namespace kvtier::sim {

// Numbers of agents that began with each policy in one tier, by EvictionPolicy.
using PolicyCounts = std::array<uint64_t, 4>;

struct Coverage {
  uint64_t crashes = 0;
  uint64_t host_hits = 0;
  uint64_t gpu_hits = 0;
  uint64_t disk_hits = 0;
  uint64_t fetched_blocks = 0;
  uint64_t passed_blocks = 0;  // Blocks asked of the next holder, when one had not sent them.
  uint64_t host_evictions = 0;
  uint64_t gpu_evictions = 0;
  uint64_t gpu_offloads = 0;  // Blocks that only the pool had.
  uint64_t disk_evictions = 0;
  uint64_t damaged_records = 0;
  uint64_t damaged_fetches = 0;
  uint64_t disk_errors = 0;
  uint64_t quarantines = 0;  // Quarantines of disks.
  uint64_t gpu_errors = 0;
  uint64_t gpu_abandoned = 0;  // Blocks that a lost device may still copy.
  uint64_t fetch_timeouts = 0;
  uint64_t deadline_misses = 0;
  uint64_t expired_leases = 0;
  uint64_t expired_reservations = 0;
  uint64_t declined_offloads = 0;
  uint64_t unworthy_offloads = 0;
  uint64_t unpaid_offloads = 0;
  uint64_t late_offloads = 0;  // Blocks that had left before their turn.
  uint64_t waiting_puts = 0;   // Puts that waited for disks that were behind.
  uint64_t unpromised_blocks = 0;
  uint64_t declined_slots = 0;
  uint64_t staged_blocks = 0;
  uint64_t short_blocks = 0;  // Checked blocks that were shorter than their space's longest.
  PolicyCounts host_policies{};
  PolicyCounts gpu_policies{};
  PolicyCounts disk_policies{};
  uint64_t agents_without_disks = 0;
  uint64_t refused_newcomers = 0;  // Blocks that were worth less than all that were there.
  uint64_t learnt_orders = 0;      // Orders that followed what they learnt when their agent ended.
  uint64_t advised_blocks = 0;
  uint64_t moved_slabs = 0;        // Slabs of host memory, from one tenant to another.
  uint64_t host_sizes = 0;         // Changes of the size of host memory that were begun.
  uint64_t blocks_for_others = 0;  // Blocks that left host memory for another tenant.
  uint64_t kept_blocks = 0;
  uint64_t dropped_blocks = 0;  // Blocks that workers dropped with their descendants.

  void Add(const Coverage& other);
  void Add(const AgentStats& agent, uint64_t gpu_offloads, const TierStats& disk);
  // Returns the name and the count of each event.
  std::vector<std::pair<const char*, uint64_t>> Counts() const;
  void Print(std::FILE* out) const;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_COVERAGE_H_
