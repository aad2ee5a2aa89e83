// GrpcCoordinatorLink is the CoordinatorLink over one gRPC channel.
#ifndef KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_
#define KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_

#include <memory>
#include <string>

#include "agent/peers/coordinator_link.h"
#include "core/executor.h"
#include "kvtier/v1/coordinator.grpc.pb.h"

namespace kvtier {

class GrpcCoordinatorLink final : public CoordinatorLink {
 public:
  // `address`: "host:port"; `build` is for people.
  GrpcCoordinatorLink(Executor* executor, const std::string& address, std::string build);
  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override;
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time deadline) override;

 private:
  Executor* const executor_;
  const std::string build_;
  const std::unique_ptr<v1::Coordinator::Stub> stub_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_
