#include "coordinator/coordinator_service.h"

#include "proto/convert.h"

namespace kvtier {
namespace {

static_assert(kMaxHoldersPerReply <= convert::kMaxHoldersPerBlock);
static_assert(CoordinatorOptions{}.max_nodes <= convert::kMaxNodesPerReply);

// Returns the status for a caller that no longer waits. A report that is applied although its agent
// has given up on it is only a duplicate later, but not applying it is cheaper.
grpc::Status GivenUp() {
  return grpc::Status(grpc::StatusCode::CANCELLED, "the caller gave up before its turn");
}

}  // namespace

grpc::Status CoordinatorService::Report(grpc::ServerContext* context,
                                        const v1::ReportRequest* request,
                                        v1::ReportResponse* response) {
  const absl::StatusOr<kvtier::Report> report = convert::ReportFrom(*request);
  if (!report.ok()) return convert::ToGrpc(report.status());
  if (context->IsCancelled()) return GivenUp();
  absl::StatusOr<ReportReply> reply;
  {
    absl::MutexLock lock(&coordinator_->mu);
    reply = coordinator_->coordinator.OnReport(*report);
  }
  if (!reply.ok()) return convert::ToGrpc(reply.status());
  *response = convert::ToWire(*reply, build_);
  return grpc::Status::OK;
}

grpc::Status CoordinatorService::Locate(grpc::ServerContext* context,
                                        const v1::LocateRequest* request,
                                        v1::LocateResponse* response) {
  const absl::StatusOr<LocateQuery> query = convert::LocateQueryFrom(*request);
  if (!query.ok()) return convert::ToGrpc(query.status());
  if (context->IsCancelled()) return GivenUp();
  LocateReply reply;
  {
    absl::MutexLock lock(&coordinator_->mu);
    reply = coordinator_->coordinator.Locate(*query);
  }
  *response = convert::ToWire(reply);
  return grpc::Status::OK;
}

}  // namespace kvtier
