// PeerService sends this node's blocks to other agents, one stream a request, on
// gRPC's own threads; the PeerServer holds each block still meanwhile.
#ifndef KVTIER_AGENT_SERVICES_PEER_SERVICE_H_
#define KVTIER_AGENT_SERVICES_PEER_SERVICE_H_

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/agent.h"
#include "agent/limits.h"
#include "kvtier/v1/peer.grpc.pb.h"

namespace kvtier {

// Returns how long a stream may last, by its request's timeout and what is left of its caller's
// deadline.
inline absl::Duration PeerStreamTime(absl::Duration timeout, absl::Duration left) {
  return std::min({timeout, left, kMaxPeerStreamTime});
}

// Thread-safe. REQUIRES: the agent outlives the server.
class PeerService final : public v1::Peer::Service {
 public:
  explicit PeerService(Agent* agent) : agent_(agent) {}
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override;

 private:
  absl::Status Serve(grpc::ServerContext* context, const v1::FetchRequest& request,
                     grpc::ServerWriter<v1::FetchChunk>* writer);
  // Sends those of the blocks that are here, until `deadline`.
  absl::Status Send(const PeerServer::Stream& stream, absl::Time deadline,
                    grpc::ServerWriter<v1::FetchChunk>* writer);

  Agent* const agent_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SERVICES_PEER_SERVICE_H_
