// CoordinatorService is the wire side of Report and Locate: it validates, calls the Coordinator
// under its lock, and answers. Calls wait in a CallLine for their turn, as long as their callers
// do.
#ifndef KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_
#define KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_

#include <cstddef>
#include <string>
#include <utility>

#include "coordinator/call_line.h"
#include "coordinator/guarded_coordinator.h"
#include "kvtier/v1/coordinator.grpc.pb.h"

namespace kvtier {

// CoordinatorService is thread-safe. Does not own `coordinator`. `build` names the program to
// agents. REQUIRES: it outlives the server.
class CoordinatorService final : public v1::Coordinator::CallbackService {
 public:
  // `max_waiting_bytes` bounds the calls that wait (CallLine).
  CoordinatorService(GuardedCoordinator* coordinator, std::string build,
                     size_t max_waiting_bytes = kMaxWaitingBytes)
      : coordinator_(coordinator), build_(std::move(build)), line_(max_waiting_bytes) {}

  grpc::ServerUnaryReactor* Report(grpc::CallbackServerContext* context,
                                   const v1::ReportRequest* request,
                                   v1::ReportResponse* response) override;
  grpc::ServerUnaryReactor* Locate(grpc::CallbackServerContext* context,
                                   const v1::LocateRequest* request,
                                   v1::LocateResponse* response) override;

 private:
  grpc::Status Answer(const v1::ReportRequest& request, v1::ReportResponse* response);
  grpc::Status Answer(const v1::LocateRequest& request, v1::LocateResponse* response);

  GuardedCoordinator* const coordinator_;
  const std::string build_;
  CallLine line_;
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_COORDINATOR_SERVICE_H_
