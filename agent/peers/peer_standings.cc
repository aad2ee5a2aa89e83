#include "agent/peers/peer_standings.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "agent/limits.h"
#include "core/log.h"
#include "core/report.h"

namespace kvtier {
namespace {

// The estimates before a peer was measured are those of a loaded 10 GbE link.
constexpr absl::Duration kPriorLatency = absl::Milliseconds(2);
constexpr double kPriorBytesPerSecond = 500e6;
// Beyond this number of peers, those without running fetches are forgotten.
constexpr size_t kMaxPeersKnown = 4096;

TransferEstimate Prior() { return {kPriorLatency, kPriorBytesPerSecond}; }

}  // namespace

PeerStanding PeerStandings::Of(const std::string& address, DomainId domain) {
  const Peer& peer = Find(address);
  const bool avoided = IsAvoided(peer);
  const size_t share = avoided ? 1 : kMaxFetchesPerPeer;
  const size_t unused = share - std::min(share, peer.running.taken());
  return {.estimate = peer.estimate,
          .avoided = avoided,
          .free_fetches = std::min({unused, peer.running.FreeFor(domain, tenants_->size()),
                                    LeftWhereBusy(peer, domain)})};
}

size_t PeerStandings::LeftWhereBusy(const Peer& peer, DomainId domain) const {
  const auto busy = peer.busy.find(domain);
  if (busy == peer.busy.end()) return kMaxFetchesPerPeer;
  if (clock_->Now() < busy->second.until) return 0;
  return busy->second.most - std::min(busy->second.most, peer.running.Taken(domain));
}

void PeerStandings::NoteBusy(Peer* peer, DomainId domain, const Outcome& outcome) {
  if (outcome.busy) {
    peer->busy[domain] = {.most = std::max(size_t{1}, peer->running.Taken(domain)),
                          .until = clock_->Now() + kPeerBusyPause};
    return;
  }
  const auto busy = peer->busy.find(domain);
  if (busy == peer->busy.end() || outcome.bytes == 0) return;
  if (++busy->second.most >= kMaxFetchesPerPeer) peer->busy.erase(busy);
}

void PeerStandings::Began(const std::string& address, DomainId domain) {
  Find(address).running.Take(domain);
  running_.Take(domain);
}

void PeerStandings::Ended(const std::string& address, DomainId domain, const Outcome& outcome) {
  Peer& peer = Find(address);
  peer.running.GiveBack(domain);
  running_.GiveBack(domain);
  // A fetch that brought nothing teaches as well, unless it ended quickly: a refusal says nothing
  // about a transfer.
  if (outcome.bytes > 0 || outcome.took > peer.estimate.Predict(0)) {
    peer.estimate.Observe(outcome.bytes, outcome.took);
    peer.measured = clock_->Now();
  }
  NoteBusy(&peer, domain, outcome);
  // A peer that is busy says nothing about an earlier failure.
  if (outcome.busy) return;
  const bool failed = !outcome.failure.ok();
  if (outcome.node.has_value()) peer.node = outcome.node;
  if (failed) Avoid(address, &peer);
  if (!failed) peer.avoided_until = absl::InfinitePast();
  if (failed == peer.failing) return;
  peer.failing = failed;
  if (!failed) failing_.erase(address);
  Log(failed ? LogLevel::kWarning : LogLevel::kInfo,
      failed
          ? absl::StrCat("peer ", address, " failed, so for ", absl::FormatDuration(kPeerAvoidance),
                         " all others are asked first: ", outcome.failure.ToString())
          : absl::StrCat("peer ", address, " serves again"));
}

void PeerStandings::Avoid(const std::string& address, Peer* peer) {
  peer->avoided_until = clock_->Now() + kPeerAvoidance;
  if (peer->failing) try_again_ = peer->avoided_until;
  failing_.insert(address);
}

std::vector<NodeId> PeerStandings::AvoidedNodes() const {
  std::vector<const Peer*> peers;
  for (const std::string& address : failing_) {
    const Peer& peer = peers_.at(address);
    if (IsAvoided(peer) && peer.node.has_value()) peers.push_back(&peer);
  }
  std::ranges::stable_sort(peers, std::ranges::greater(), &Peer::avoided_until);
  if (peers.size() > kMaxAvoidedNodes) peers.resize(kMaxAvoidedNodes);
  std::vector<NodeId> nodes;
  nodes.reserve(peers.size());
  for (const Peer* const peer : peers) nodes.push_back(*peer->node);
  return nodes;
}

size_t PeerStandings::avoided() const {
  return std::ranges::count_if(peers_, [&](const auto& peer) { return IsAvoided(peer.second); });
}

PeerStandings::Peer& PeerStandings::Find(const std::string& address) {
  const absl::Time now = clock_->Now();
  const auto known = peers_.find(address);
  if (known != peers_.end()) {
    Peer& peer = known->second;
    if (now - peer.measured > kPeerEstimateLifetime) {
      peer.estimate = Prior();
      peer.measured = now;
      peer.busy.clear();
    }
    return peer;
  }
  if (peers_.size() >= kMaxPeersKnown) {
    std::erase_if(peers_, [](const auto& peer) { return peer.second.running.taken() == 0; });
    std::erase_if(failing_, [this](const std::string& each) { return !peers_.contains(each); });
  }
  return peers_.emplace(address, Peer{.estimate = Prior(), .measured = now}).first->second;
}

}  // namespace kvtier
