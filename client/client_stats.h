// ClientStats counts what one client did, for a worker's own metrics and logs.
#ifndef KVTIER_CLIENT_CLIENT_STATS_H_
#define KVTIER_CLIENT_CLIENT_STATS_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "client/block_source.h"
#include "core/miss_reason.h"

namespace kvtier {

struct ClientStats {
  bool connected = false;
  // "closed", "doubted" (only calls of less than 10 ms are skipped), "open" or "half-open".
  std::string breaker = "closed";
  // The latest thing that went wrong; empty: nothing yet. Not cleared by success.
  std::string last_error;

  uint64_t sessions = 0;          // Opened so far; each but the first is a reconnection.
  uint64_t breaker_opened = 0;    // Number of times that the breaker opened.
  uint64_t calls = 0;             // Calls sent to the agent.
  uint64_t calls_failed = 0;      // Calls sent and not answered: late, or the agent died.
  uint64_t calls_refused = 0;     // Calls answered with an error.
  uint64_t calls_skipped = 0;     // Calls not sent: no agent, or not admitted by the breaker.
  uint64_t onboarded_blocks = 0;  // Blocks leased to this client.
  uint64_t missed_blocks = 0;     // Blocks that Onboard asked for and that were not leased.
  uint64_t damaged_blocks = 0;    // Onboarded blocks whose bytes did not match their sums.
  uint64_t reserved_blocks = 0;   // Slots this client was given to write.
  uint64_t committed_blocks = 0;
  uint64_t unwritten_blocks = 0;  // Slots that a commit gave back, because nobody took them.
  uint64_t onboarded_bytes = 0;   // Bytes of the onboarded blocks.
  uint64_t committed_bytes = 0;   // Bytes of the committed blocks.
  // Onboarded blocks, by the BlockSource that had them; and missed blocks, by the MissReason of the
  // first missing block of their sequence.
  std::array<uint64_t, kBlockSourceCount> onboarded_from{};
  std::array<uint64_t, kMissReasonCount> missed_because{};
  // Times of the calls that were answered, as the client measured them, by name: "match",
  // "onboard", "prefetch", "reserve", "commit", "take_slots", "register_space" and "ping".
  struct Latency {
    uint64_t calls = 0;
    absl::Duration p50;
    absl::Duration p99;  // Both percentiles are too long by at most 19 %.
  };
  std::map<std::string, Latency> latencies;
  uint64_t releases_dropped = 0;  // Leases left to their deadline: the queue was full.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_CLIENT_STATS_H_
