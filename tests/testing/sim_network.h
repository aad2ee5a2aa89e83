// SimNetwork carries messages between simulated processes in virtual time, and by its faults
// delays, loses, repeats and cuts them. It knows which process listens at which address, so a
// connection to one that died is refused.
#ifndef KVTIER_TESTS_TESTING_SIM_NETWORK_H_
#define KVTIER_TESTS_TESTING_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_random.h"

namespace kvtier {

class Agent;
class Coordinator;

namespace testing {

inline constexpr char kCoordinatorAddress[] = "coordinator:7300";

// Faults of a network. Chances are 0 to 1 for each message. The default is slow and never wrong.
struct SimNetworkFaults {
  // Part of the messages that never arrive; in a stream of blocks the rest is lost, too.
  double lost = 0;
  double repeated = 0;  // Arrives twice: a retry whose first try was heard.
  double spike = 0;     // Arrives up to `spike_latency` later; unary messages overtake it.
  double broken = 0;    // A peer's stream of blocks breaks in the middle of a block.
  double flipped = 0;   // Part of the blocks of peers, or of their proofs, that have one wrong bit.
  double misnumbered = 0;  // A peer's block has another block's index.
  absl::Duration latency = absl::Microseconds(60);
  absl::Duration spike_latency = absl::Seconds(2);
  double bytes_per_second = 2e9;
};

// Ways in which a node's peer service answers, while its agent and its heartbeats go on.
enum class PeerService {
  kServes,
  kFrozen,   // Accepts calls and never answers.
  kRefuses,  // Ends every call at once.
};

// Counts of the faults that happened to blocks on their way.
struct SimNetworkFaultCounts {
  uint64_t flipped = 0;
  uint64_t misnumbered = 0;
};

// SimNetwork is single-threaded.
class SimNetwork {
 public:
  SimNetwork(SimTime* time, uint64_t seed) : time_(time), random_(seed) {}

  // Runs `deliver` at the other end, once, twice or never. A message that is in progress when its
  // sender dies arrives all the same.
  void Send(const std::string& from, const std::string& to, uint64_t bytes,
            std::function<void()> deliver);
  // Returns the time at which a stream's message of `bytes` arrives; infinite: never.
  absl::Time ArrivalOf(const std::string& from, const std::string& to, uint64_t bytes);

  // Lets no message pass between the two until Mend().
  void Cut(const std::string& a, const std::string& b) { cuts_.insert(std::minmax(a, b)); }
  void Mend() { cuts_.clear(); }

  // Makes `agent` serve at an address; nullptr: nobody does.
  void Listen(const std::string& address, Agent* agent) { agents_[address] = agent; }
  void ListenAsCoordinator(Coordinator* coordinator) { coordinator_ = coordinator; }
  Agent* AgentAt(const std::string& address) const;
  Coordinator* coordinator() const { return coordinator_; }
  // Freezes the coordinator, so that it gets messages but does not answer, or unfreezes it.
  void FreezeCoordinator(bool frozen) { coordinator_frozen_ = frozen; }
  bool coordinator_frozen() const { return coordinator_frozen_; }
  void SetPeerService(const std::string& address, PeerService service) {
    peer_services_[address] = service;
  }
  PeerService PeerServiceAt(const std::string& address) const {
    const auto set = peer_services_.find(address);
    return set == peer_services_.end() ? PeerService::kServes : set->second;
  }

  SimTime* time() const { return time_; }
  SimRandom& random() { return random_; }

  SimNetworkFaults faults;
  SimNetworkFaultCounts counts;

 private:
  SimTime* const time_;  // Not owned.
  SimRandom random_;
  std::set<std::pair<std::string, std::string>> cuts_;
  std::map<std::string, Agent*> agents_;
  // State of each peer's service; absent: kServes.
  std::map<std::string, PeerService> peer_services_;
  Coordinator* coordinator_ = nullptr;
  bool coordinator_frozen_ = false;
};

}  // namespace testing
}  // namespace kvtier

#endif  // KVTIER_TESTS_TESTING_SIM_NETWORK_H_
