// What an agent counted since its start, beside what its tiers count themselves.
#ifndef KVTIER_AGENT_AGENT_STATS_H_
#define KVTIER_AGENT_AGENT_STATS_H_

#include <cstdint>

#include "core/tier_stats.h"

namespace kvtier {

struct PeerStats {
  uint64_t fetched_blocks = 0;  // Arrived, verified, published.
  uint64_t fetched_bytes = 0;
  uint64_t missed_blocks = 0;    // Hinted, and not delivered.
  uint64_t verify_failures = 0;  // Arrived, and not what they said they were.
  uint64_t timeouts = 0;         // Fetches that met their deadline.
  uint64_t served_blocks = 0;    // To other nodes.
  uint64_t served_bytes = 0;
};

// Blocks that were offered to the disks, by what became of them.
struct OffloadStats {
  uint64_t written = 0;
  uint64_t not_worth_it = 0;  // Refused by the write policy.
  uint64_t over_budget = 0;   // Worth it, and beyond the day's writes.
  uint64_t queue_full = 0;    // The disks are behind.
  uint64_t evicted = 0;       // Left host memory before their turn: the disks are behind.
  uint64_t altered = 0;       // Changed in host memory after commit, found before they spread.
  uint64_t disk_full = 0;     // No disk had room, for the record or for one more put.
  uint64_t disk_failed = 0;   // The write failed, or no disk is in service.
};

struct AgentStats {
  TierStats gpu;
  TierStats host;
  PeerStats peers;
  OffloadStats offload;
  uint64_t disk_misses = 0;      // Blocks asked for that were in no tier of this node.
  uint64_t deadline_misses = 0;  // Blocks on their way when their asker's time was up.
  uint64_t expired_leases = 0;
  uint64_t expired_reservations = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_STATS_H_
