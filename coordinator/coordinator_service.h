// CoordinatorService is the wire side of Report and Locate: it validates, calls the Coordinator
// under its lock, and answers.
#ifndef KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_
#define KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_

#include <string>
#include <utility>

#include "coordinator/guarded_coordinator.h"
#include "kvtier/v1/coordinator.grpc.pb.h"

namespace kvtier {

// CoordinatorService is thread-safe. Does not own `coordinator`. `build` names the program to
// agents.
class CoordinatorService final : public v1::Coordinator::Service {
 public:
  CoordinatorService(GuardedCoordinator* coordinator, std::string build)
      : coordinator_(coordinator), build_(std::move(build)) {}

  grpc::Status Report(grpc::ServerContext* context, const v1::ReportRequest* request,
                      v1::ReportResponse* response) override;
  grpc::Status Locate(grpc::ServerContext* context, const v1::LocateRequest* request,
                      v1::LocateResponse* response) override;

 private:
  GuardedCoordinator* const coordinator_;
  const std::string build_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_
