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

static_assert(kMaxDeltasPerMessage <= convert::kMaxDeltasBesideTenants);

constexpr int kMinReconnectBackoffMs = 100;
constexpr int kMaxReconnectBackoffMs = 1000;

std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
  grpc::ChannelArguments arguments = LinkArguments();
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kMinReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kMinReconnectBackoffMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectBackoffMs);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

GrpcCoordinatorLink::GrpcCoordinatorLink(Executor* executor, const std::string& address,
                                         std::string build)
    : executor_(executor),
      build_(std::move(build)),
      stub_(v1::Coordinator::NewStub(Connect(address))) {}

Task<absl::StatusOr<ReportReply>> GrpcCoordinatorLink::Send(Report report, absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline - executor_->Now()));
  const v1::ReportRequest request = convert::ToWire(report, build_);
  v1::ReportResponse response;
  AwaitCallback<grpc::Status> call(executor_, [&](auto done) {
    stub_->async()->Report(&context, &request, &response,
                           [done = std::make_shared<decltype(done)>(std::move(done))](
                               grpc::Status status) { (*done)(std::move(status)); });
  });
  const grpc::Status status = co_await call;
  if (!status.ok()) co_return convert::FromGrpc(status);
  co_return convert::ReportReplyFrom(response);
}

Task<absl::StatusOr<LocateReply>> GrpcCoordinatorLink::Locate(LocateQuery query,
                                                              absl::Time deadline) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineIn(deadline - executor_->Now()));
  const v1::LocateRequest request = convert::ToWire(query, build_);
  v1::LocateResponse response;
  AwaitCallback<grpc::Status> call(executor_, [&](auto done) {
    stub_->async()->Locate(&context, &request, &response,
                           [done = std::make_shared<decltype(done)>(std::move(done))](
                               grpc::Status status) { (*done)(std::move(status)); });
  });
  const grpc::Status status = co_await call;
  if (!status.ok()) co_return convert::FromGrpc(status);
  co_return convert::LocateReplyFrom(response);
}

}  // namespace kvtier
