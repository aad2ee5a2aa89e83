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

struct AgentStats {
  TierStats gpu;
  TierStats host;
  PeerStats peers;
  uint64_t disk_misses = 0;       // Blocks asked for that were in no tier of this node.
  uint64_t deadline_misses = 0;   // Blocks on their way when their asker's time was up.
  uint64_t offload_declined = 0;  // Blocks not written to disk: the queue or the disk was full.
  uint64_t altered_blocks = 0;    // Host blocks changed after commit, found before they spread.
  uint64_t expired_leases = 0;
  uint64_t expired_reservations = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_STATS_H_
