// PeerService sends this node's blocks to other agents, one stream a request, on
// gRPC's own threads; the PeerServer holds each block still meanwhile.
#ifndef KVTIER_AGENT_PEER_SERVICE_H_
#define KVTIER_AGENT_PEER_SERVICE_H_

#include <atomic>
#include <cstddef>

#include "agent/agent.h"
#include "kvtier/v1/peer.grpc.pb.h"

namespace kvtier {

// Thread-safe. REQUIRES: the agent outlives the server.
class PeerService final : public v1::Peer::Service {
 public:
  explicit PeerService(Agent* agent) : agent_(agent) {}
  grpc::Status Fetch(grpc::ServerContext* context, const v1::FetchRequest* request,
                     grpc::ServerWriter<v1::FetchChunk>* writer) override;

 private:
  absl::Status Serve(grpc::ServerContext* context, const v1::FetchRequest& request,
                     grpc::ServerWriter<v1::FetchChunk>* writer);

  Agent* const agent_;
  // Streams running now; a counter only, so relaxed.
  std::atomic<size_t> streams_{0};
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEER_SERVICE_H_
