// AgentStats counts what an agent did since its start, beside what its tiers count themselves.
#ifndef KVTIER_AGENT_AGENT_STATS_H_
#define KVTIER_AGENT_AGENT_STATS_H_

#include <cstdint>

#include "agent/tenant_hits.h"
#include "core/tier_stats.h"

namespace kvtier {

struct PeerStats {
  uint64_t fetched_blocks = 0;  // Blocks that arrived, were verified and published.
  uint64_t fetched_bytes = 0;
  uint64_t missed_blocks = 0;    // Blocks that the coordinator hinted at and no holder sent.
  uint64_t passed_blocks = 0;    // Blocks asked of another holder after one did not send them.
  uint64_t verify_failures = 0;  // Blocks that arrived and did not match their proof.
  uint64_t timeouts = 0;         // Fetches whose blocks were missed because time was up.
  uint64_t served_blocks = 0;    // Blocks sent to other nodes.
  uint64_t served_bytes = 0;
};

// Blocks that were offered to the disks, by what became of them.
struct OffloadStats {
  uint64_t written = 0;
  uint64_t not_worth_it = 0;  // Refused by the write policy.
  uint64_t over_budget = 0;   // Worth a write, but over the disk's budget of writes.
  // Found no room in DiskPromises, because the disks are behind. A block of a put is then not put;
  // any other is offered again when it is hit.
  uint64_t declined_behind = 0;
  // With writes at eviction: blocks that left host memory before they were written.
  uint64_t evicted = 0;
  uint64_t altered = 0;      // Changed in host memory after commit, found before they spread.
  uint64_t disk_full = 0;    // No disk had room, for the record or for one more put.
  uint64_t disk_failed = 0;  // The write failed, or no disk is in service.
  uint64_t waited = 0;       // Puts, not blocks, that waited because the disks were behind.
};

// The agent's copies between host memory and the GPU pool, of one direction.
struct GpuLinkStats {
  uint64_t copies = 0;  // Copies that ended, failed ones too.
  uint64_t failed = 0;
  uint64_t bytes = 0;  // Bytes of those that did not fail.
  uint32_t in_flight = 0;
  // Time with a copy in flight, up to the last time when none was.
  absl::Duration busy;
  absl::Time busy_since;             // Time since which a copy is in flight, if in_flight > 0.
  double best_bytes_per_second = 0;  // Rate of the fastest copy so far.
  LatencyHistogram latency;          // Time of one copy, its wait for its turn included.
};

// Counts of one GPU pool, beside those of the tier.
struct GpuStats {
  GpuLinkStats onboard;           // Host to device.
  GpuLinkStats offload;           // Device to host.
  uint64_t evicted_ahead = 0;     // Blocks that left the pool before their slots were needed.
  uint64_t offloaded = 0;         // Blocks that only the pool had, copied to host memory.
  uint64_t offload_declined = 0;  // Such copies that were not made: host memory had no room.
};

struct AgentStats {
  TierStats gpu;  // Sums over all pools of the node.
  TierStats host;
  PeerStats peers;
  OffloadStats offload;
  TenantHits tenants;
  uint64_t disk_misses = 0;      // Blocks asked for that were in no tier of this node.
  uint64_t deadline_misses = 0;  // Blocks still on their way at the deadline of a call for them.
  uint64_t expired_leases = 0;
  uint64_t expired_reservations = 0;
  uint64_t staged_blocks = 0;  // Blocks copied from workers' own regions at commit.
  uint64_t refused_sums = 0;   // Staged blocks that do not match the sum that the worker sent.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_STATS_H_
