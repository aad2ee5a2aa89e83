// PeerStandings is what this node has seen of its peers: how fast each one was, which of
// them failed lately, and how many fetches run at each, of which tenants. A failure is remembered
// for a while and not for ever, so a peer that is well again is used again. The tenants of this
// node divide the fetches, at each peer and at all of them (StreamShares).
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
#include "agent/limits.h"
#include "agent/peers/plan_fetch.h"
#include "agent/peers/stream_shares.h"
#include "agent/tenants.h"
#include "core/clock.h"
#include "core/cost_model.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class PeerStandings {
 public:
  // Outcome says how a fetch went.
  struct Outcome {
    uint64_t bytes = 0;  // Bytes of the blocks that arrived whole.
    absl::Duration took;
    absl::Status failure;  // Failure of the peer; kOk: it did what it could.
  };

  // `tenants` are those of this node. Owns neither.
  PeerStandings(const Clock* clock, const TenantTable* tenants)
      : clock_(clock), tenants_(tenants) {}

  // Returns the peer's standing now, for a plan of the tenant's fetches.
  PeerStanding Of(const std::string& address, DomainId domain);
  // Returns how many fetches more the tenant may run, at all peers together.
  size_t FreeFor(DomainId domain) const { return running_.FreeFor(domain, tenants_->size()); }
  // Counts that a plan of the tenant found no fetch free for it.
  void CountRefused(DomainId domain) { running_.CountRefused(domain); }
  // Began() counts a fetch of the tenant as running. Ended() is called once for each, and learns
  // from its outcome.
  void Began(const std::string& address, DomainId domain);
  void Ended(const std::string& address, DomainId domain, const Outcome& outcome);
  const StreamShares& running() const { return running_; }  // Fetches, at all peers.
  // Returns how many peers failed in the last kPeerAvoidance and did not serve since.
  size_t avoided() const;

 private:
  struct Peer {
    TransferEstimate estimate;
    absl::Time measured;  // Time of the last fetch that the estimate learned from.
    absl::Time avoided_until = absl::InfinitePast();
    bool failing = false;  // The last fetch that ended failed.
    StreamShares running{kMaxFetchesPerPeer};
  };
  Peer& Find(const std::string& address);
  bool IsAvoided(const Peer& peer) const { return clock_->Now() < peer.avoided_until; }

  const Clock* const clock_;
  const TenantTable* const tenants_;
  std::map<std::string, Peer> peers_;  // Peers by address.
  StreamShares running_{kMaxFetchesRunning};
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_PEER_STANDINGS_H_
