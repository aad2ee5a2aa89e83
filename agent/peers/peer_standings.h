// PeerStandings is what this node has seen of its peers: how fast each one was, which of
// them failed lately, and how many fetches run at each, of which tenants. A failure is remembered
// for a while and not for ever, so a peer that is well again is used again. The tenants of this
// node divide the fetches, at each peer and at all of them (StreamShares).
//
// A peer that is busy has not failed: of the tenant that it refused, as many fetches run there as
// it served when it refused one more, and one more after each that succeeds.
//
// Executor thread only.
#ifndef KVTIER_AGENT_PEERS_PEER_STANDINGS_H_
#define KVTIER_AGENT_PEERS_PEER_STANDINGS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/limits.h"
#include "agent/peers/plan_fetch.h"
#include "agent/peers/stream_shares.h"
#include "agent/tenants.h"
#include "core/clock.h"
#include "core/cost_model.h"
#include "core/node.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class PeerStandings {
 public:
  // Outcome says how a fetch went.
  struct Outcome {
    uint64_t bytes = 0;  // Bytes of the blocks that arrived whole.
    absl::Duration took;
    absl::Status failure;        // Failure of the peer; kOk: it did what it could.
    bool busy = false;           // Whether it had no stream free for the tenant.
    std::optional<NodeId> node;  // Node at the address, as the coordinator called it.
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
  // Returns how many peers are avoided.
  size_t avoided() const;
  // Returns the avoided nodes, the one that failed last in front, kMaxAvoidedNodes at most.
  std::vector<NodeId> AvoidedNodes() const;

 private:
  // Busy says that a peer refused the tenant a stream.
  struct Busy {
    size_t most = 0;   // Fetches of the tenant that may run there.
    absl::Time until;  // None begins before.
  };
  struct Peer {
    TransferEstimate estimate;
    absl::Time measured;  // Time of the last fetch that the estimate learned from.
    absl::Time avoided_until = absl::InfinitePast();
    bool failing = false;  // The last fetch that ended failed.
    std::optional<NodeId> node;
    std::map<DomainId, Busy> busy;  // Tenants that it refused lately.
    StreamShares running{kMaxFetchesPerPeer};
  };
  Peer& Find(const std::string& address);
  bool IsAvoided(const Peer& peer) const {
    const absl::Time now = clock_->Now();
    return now < peer.avoided_until || (peer.failing && now < try_again_);
  }
  // Returns how many fetches more the tenant may begin at a peer that refused it lately.
  size_t LeftWhereBusy(const Peer& peer, DomainId domain) const;
  void NoteBusy(Peer* peer, DomainId domain, const Outcome& outcome);
  void Avoid(const std::string& address, Peer* peer);

  const Clock* const clock_;
  const TenantTable* const tenants_;
  std::map<std::string, Peer> peers_;  // Peers by address.
  std::set<std::string> failing_;      // Addresses of peers whose last fetch failed.
  // Time before which no peer that failed is trusted again, because another one was, in vain.
  absl::Time try_again_ = absl::InfinitePast();
  StreamShares running_{kMaxFetchesRunning};
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_PEER_STANDINGS_H_
