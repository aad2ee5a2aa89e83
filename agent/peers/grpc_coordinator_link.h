// GrpcCoordinatorLink is the CoordinatorLink over a gRPC channel. When reports fail it connects
// again by another channel, which resolves the coordinator's name again: a channel of its own
// accord keeps a connection on which nothing is answered any more, and asks for a name's address
// again only half a minute later.
#ifndef KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_
#define KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_

#include <memory>
#include <string>

#include "agent/peers/coordinator_link.h"
#include "core/executor.h"
#include "grpcpp/support/status.h"
#include "kvtier/v1/coordinator.grpc.pb.h"

namespace kvtier {

class GrpcCoordinatorLink final : public CoordinatorLink {
 public:
  // `address`: "host:port"; `build` is for people.
  GrpcCoordinatorLink(Executor* executor, const std::string& address, std::string build);
  Task<absl::StatusOr<ReportReply>> Send(Report report, absl::Time deadline) override;
  Task<absl::StatusOr<LocateReply>> Locate(LocateQuery query, absl::Time deadline) override;

 private:
  // Takes note of how a report over `stub` ended.
  void Note(const grpc::Status& status, const std::shared_ptr<v1::Coordinator::Stub>& stub);

  Executor* const executor_;
  const std::string address_;
  const std::string build_;
  std::shared_ptr<v1::Coordinator::Stub> stub_;  // Calls in progress share it.
  int failed_reports_ = 0;                       // Number in a row, over `stub_`.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_PEERS_GRPC_COORDINATOR_LINK_H_
