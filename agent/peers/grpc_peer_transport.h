// GrpcPeerTransport is the PeerTransport over gRPC streams: one thread of its own
// for each fetch, which copies the chunks into the slots.
#ifndef KVTIER_AGENT_PEERS_GRPC_PEER_TRANSPORT_H_
#define KVTIER_AGENT_PEERS_GRPC_PEER_TRANSPORT_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/peers/peer_transport.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/node.h"
#include "grpcpp/client_context.h"
#include "kvtier/v1/peer.grpc.pb.h"

namespace kvtier {

// Executor thread only. REQUIRES: no fetch runs when it is destroyed.
class GrpcPeerTransport final : public PeerTransport {
 public:
  GrpcPeerTransport(Executor* executor, NodeId self);
  Task<absl::Status> Fetch(std::string address, FetchRequest request, FetchTime time,
                           FetchSink* sink) override;
  // Ends the fetches that run, with kCancelled, and lets none start: an agent that
  // stops waits for no peer.
  void CancelAll();

 private:
  std::shared_ptr<v1::Peer::Stub> StubFor(const std::string& address);

  Executor* const executor_;
  const NodeId self_;
  BytePool threads_;
  std::set<grpc::ClientContext*> running_;
  bool cancelled_ = false;
  std::map<std::string, std::shared_ptr<v1::Peer::Stub>> stubs_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_GRPC_PEER_TRANSPORT_H_
