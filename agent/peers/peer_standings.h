// PeerStandings is what this node has seen of its peers: how fast each one was, which of
// them failed lately, and how many fetches run at each. A failure is remembered for a
// while and not for ever, so a peer that is well again is used again.
//
// Executor thread only.
#ifndef KVTIER_AGENT_PEERS_PEER_STANDINGS_H_
#define KVTIER_AGENT_PEERS_PEER_STANDINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/peers/plan_fetch.h"
#include "core/clock.h"
#include "core/cost_model.h"

namespace kvtier {

class PeerStandings {
 public:
  // How a fetch went.
  struct Outcome {
    uint64_t bytes = 0;  // Of the blocks that arrived whole.
    absl::Duration took;
    absl::Status failure;  // Of the peer; kOk: it did what it could.
  };

  // Does not own `clock`.
  explicit PeerStandings(const Clock* clock) : clock_(clock) {}

  // Returns what a plan may make of the peer now.
  PeerStanding Of(const std::string& address);
  // Counts a fetch in; Ended() is called once for each, and learns from it.
  void Began(const std::string& address);
  void Ended(const std::string& address, const Outcome& outcome);
  // Fetches that run, at all peers.
  size_t running() const { return running_; }
  // Returns how many peers failed in the last kPeerAvoidance and did not serve since.
  size_t avoided() const;

 private:
  struct Peer {
    TransferEstimate estimate;
    absl::Time measured;  // Time of the last fetch that the estimate learned from.
    absl::Time avoided_until = absl::InfinitePast();
    bool failing = false;  // The last fetch that ended failed.
    size_t running = 0;
  };
  Peer& Find(const std::string& address);
  bool IsAvoided(const Peer& peer) const { return clock_->Now() < peer.avoided_until; }

  const Clock* const clock_;
  std::map<std::string, Peer> peers_;  // By address.
  size_t running_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_PEER_STANDINGS_H_
