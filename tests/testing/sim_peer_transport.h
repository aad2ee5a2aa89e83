// SimPeerTransport is the PeerTransport seam over a SimNetwork: each fetch is one ordered stream of
// blocks, which the other node's real PeerServer serves.
#ifndef KVTIER_TESTS_TESTING_SIM_PEER_TRANSPORT_H_
#define KVTIER_TESTS_TESTING_SIM_PEER_TRANSPORT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "agent/peers/peer_transport.h"
#include "core/executor.h"
#include "tests/testing/sim_network.h"

namespace kvtier::testing {

class SimPeerTransport final : public PeerTransport {
 public:
  // Makes a transport. Does not own `executor` and `network`; `network` outlives the transport and
  // its messages.
  SimPeerTransport(Executor* executor, SimNetwork* network, std::string self)
      : executor_(executor), network_(network), self_(std::move(self)) {}

  Task<absl::Status> Fetch(std::string address, FetchRequest request, FetchTime time,
                           FetchSink* sink) override;
  size_t running() const { return running_; }

 private:
  Executor* const executor_;
  SimNetwork* const network_;
  const std::string self_;
  size_t running_ = 0;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_PEER_TRANSPORT_H_
