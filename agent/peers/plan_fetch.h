// PlanFetch decides which peers to ask for which blocks: a pure function of the
// coordinator's hints, what was seen of each peer, and the time there is.
#ifndef KVTIER_AGENT_PEERS_PLAN_FETCH_H_
#define KVTIER_AGENT_PEERS_PLAN_FETCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/cost_model.h"
#include "core/report.h"

namespace kvtier {

// A run of blocks to take from one peer, by position in the keys that were located.
struct PeerRun {
  std::string address;
  size_t first = 0;
  size_t count = 0;
  // Time that the peer is given: the whole budget, or half of it where another holder of the
  // first block could still be asked.
  absl::Duration time;
  // Silence of the peer that ends the fetch early; infinite: no other peer could be asked.
  absl::Duration silence = absl::InfiniteDuration();
};

// PeerStanding describes what was measured of one peer.
struct PeerStanding {
  TransferEstimate estimate;
  bool avoided = false;     // Whether the peer failed lately, so that others are preferred.
  size_t free_fetches = 0;  // Fetches that may still be started at it.
};
using StandingOf = std::function<PeerStanding(const std::string& address)>;

struct FetchBounds {
  uint64_t block_bytes = 0;  // Length of the longest block, which each is taken to have.
  absl::Duration budget;     // The caller's time for all of it.
  size_t free_fetches = 0;   // Fetches that may still be started, at all peers together.
};

// Returns the runs to fetch, from the start of the located keys on. Prefers, among the holders of a
// block, one that has not failed lately, then the one that is asked for the block before, then the
// best in the coordinator's order. Passes over holders that would bring the bytes too late, and
// holders whose share of fetches is used up. Stops at a block that has no other holder: that block
// and all later ones are computed instead. A run has kMaxKeysPerFetch blocks at most.
std::vector<PeerRun> PlanFetch(const LocateReply& located, const FetchBounds& bounds,
                               const StandingOf& standing_of);

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_PLAN_FETCH_H_
