#include "agent/peers/grpc_coordinator_link.h"

#include <utility>

#include "agent/limits.h"
#include "core/event.h"
#include "core/status_macros.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"
#include "proto/link.h"

namespace kvtier {
namespace {

static_assert(kMaxDeltasPerMessage <= convert::kMaxDeltasPerReport);

constexpr int kMinReconnectBackoffMs = 100;
constexpr int kMaxReconnectBackoffMs = 1000;

// Reports in a row that nobody answers, after which another channel is tried.
constexpr int kFailedReports = 2;

std::shared_ptr<v1::Coordinator::Stub> Connect(const std::string& address) {
  grpc::ChannelArguments arguments = LinkArguments();
  // Else another channel to the same address would go on with the connection of the one before.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMinReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  return v1::Coordinator::NewStub(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

}  // namespace

GrpcCoordinatorLink::GrpcCoordinatorLink(Executor* executor, const std::string& address,
                                         std::string build)
    : executor_(executor), address_(address), build_(std::move(build)), stub_(Connect(address)) {}

void GrpcCoordinatorLink::Note(const grpc::Status& status,
                               const std::shared_ptr<v1::Coordinator::Stub>& stub) {
  if (stub != stub_) return;
  const bool failed = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                      status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  failed_reports_ = failed ? failed_reports_ + 1 : 0;
  if (failed_reports_ < kFailedReports) return;
  failed_reports_ = 0;
  stub_ = Connect(address_);
}

Task<absl::StatusOr<ReportReply>> GrpcCoordinatorLink::Send(Report report, absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline - executor_->Now()));
  const v1::ReportRequest request = convert::ToWire(report, build_);
  v1::ReportResponse response;
  const std::shared_ptr<v1::Coordinator::Stub> stub = stub_;
  AwaitCallback<grpc::Status> call(executor_, [&](auto done) {
    stub->async()->Report(&context, &request, &response,
                          [done = std::make_shared<decltype(done)>(std::move(done))](
                              grpc::Status status) { (*done)(std::move(status)); });
  });
  const grpc::Status status = co_await call;
  Note(status, stub);
  if (!status.ok()) co_return convert::FromGrpc(status);
  co_return convert::ReportReplyFrom(response);
}

Task<absl::StatusOr<LocateReply>> GrpcCoordinatorLink::Locate(LocateQuery query,
                                                              absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline - executor_->Now()));
  const v1::LocateRequest request = convert::ToWire(query, build_);
  v1::LocateResponse response;
  const std::shared_ptr<v1::Coordinator::Stub> stub = stub_;
  AwaitCallback<grpc::Status> call(executor_, [&](auto done) {
    stub->async()->Locate(&context, &request, &response,
                          [done = std::make_shared<decltype(done)>(std::move(done))](
                              grpc::Status status) { (*done)(std::move(status)); });
  });
  const grpc::Status status = co_await call;
  if (!status.ok()) co_return convert::FromGrpc(status);
  co_return convert::LocateReplyFrom(response);
}

}  // namespace kvtier
