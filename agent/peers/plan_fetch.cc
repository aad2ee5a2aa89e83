#include "agent/peers/plan_fetch.h"

#include <algorithm>
#include <map>
#include <utility>

#include "agent/limits.h"

namespace kvtier {
namespace {

bool Holds(const std::vector<Holder>& holders, const std::string& address) {
  return std::any_of(holders.begin(), holders.end(),
                     [&](const Holder& holder) { return holder.address == address; });
}

// A plan as it grows, block by block.
class Plan {
 public:
  Plan(const LocateReply& located, const FetchBounds& bounds, const StandingOf& standing_of)
      : located_(located), bounds_(bounds), standing_of_(standing_of) {}

  // Plans block `i`. Returns false if no holder brings it in time.
  bool Take(size_t i) {
    for (const bool avoided : {false, true}) {
      if (Stays(i, avoided)) {
        At(runs_.back().address).bytes += bounds_.block_bytes;
        ++runs_.back().count;
        return true;
      }
      for (const Holder& holder : located_[i]) {
        Peer& peer = At(holder.address);
        if (peer.standing.avoided != avoided || !MayBegin(peer) || !InTime(peer)) continue;
        peer.bytes += bounds_.block_bytes;
        --peer.standing.free_fetches;
        runs_.push_back({.address = holder.address, .first = i, .count = 1});
        return true;
      }
    }
    return false;
  }

  std::vector<PeerRun> Finish() && {
    for (PeerRun& run : runs_) GiveTime(&run);
    return std::move(runs_);
  }

 private:
  struct Peer {
    PeerStanding standing;
    uint64_t bytes = 0;  // Asked of it in this plan.
  };

  Peer& At(const std::string& address) {
    const auto known = peers_.find(address);
    if (known != peers_.end()) return known->second;
    return peers_.emplace(address, Peer{.standing = standing_of_(address)}).first->second;
  }
  bool Stays(size_t i, bool avoided) {
    if (runs_.empty() || runs_.back().count == kMaxKeysPerFetch) return false;
    const Peer& peer = At(runs_.back().address);
    return peer.standing.avoided == avoided && InTime(peer) &&
           Holds(located_[i], runs_.back().address);
  }
  bool MayBegin(const Peer& peer) const {
    return peer.standing.free_fetches > 0 && runs_.size() < bounds_.free_fetches;
  }
  // Returns whether one more block comes inside the budget.
  bool InTime(const Peer& peer) const {
    return WorthFetching(peer.standing.estimate, peer.bytes + bounds_.block_bytes, bounds_.budget);
  }

  void GiveTime(PeerRun* run) {
    run->time = bounds_.budget;
    const Peer& peer = At(run->address);
    const absl::Duration silence = std::max(
        kMinPeerSilence, kPeerSilenceFactor * peer.standing.estimate.Predict(bounds_.block_bytes));
    const bool early = peer.standing.estimate.Predict(peer.bytes) <= bounds_.budget / 2;
    const absl::Duration time = early ? bounds_.budget / 2 : bounds_.budget;
    const auto takes_over = [&](const Holder& holder) {
      const PeerStanding& other = At(holder.address).standing;
      return holder.address != run->address && other.free_fetches > 0 &&
             (!other.avoided || peer.standing.avoided) &&
             WorthFetching(other.estimate, bounds_.block_bytes,
                           bounds_.budget - std::min(time, silence));
    };
    if (!std::ranges::any_of(located_[run->first], takes_over)) return;
    run->time = time;
    run->silence = silence;
  }

  const LocateReply& located_;
  const FetchBounds& bounds_;
  const StandingOf& standing_of_;
  std::map<std::string, Peer> peers_;  // Peers by address.
  std::vector<PeerRun> runs_;
};

}  // namespace

std::vector<PeerRun> PlanFetch(const LocateReply& located, const FetchBounds& bounds,
                               const StandingOf& standing_of) {
  Plan plan(located, bounds, standing_of);
  for (size_t i = 0; i < located.size() && plan.Take(i); ++i) {
  }
  return std::move(plan).Finish();
}

}  // namespace kvtier
