#include "tests/testing/coordinator_process.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"
#include "proto/link.h"
#include "proto/socket_names.h"
#include "tests/testing/agent_process.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kCoordinatorStartLimit = absl::Seconds(20);
constexpr absl::Duration kCoordinatorCallLimit = absl::Milliseconds(500);
constexpr absl::Duration kCoordinatorSettleLimit = absl::Seconds(20);

void SetDeadline(grpc::ClientContext* context) {
  context->set_wait_for_ready(true);  // See SetLimit() in agent_process.cc.
  context->set_deadline(std::chrono::system_clock::now() +
                        absl::ToChronoNanoseconds(Patience(kCoordinatorCallLimit)));
}

}  // namespace

std::string CoordinatorProcess::admin_address() const {
  return absl::StrCat("unix:", options_.socket_dir, "/", kCoordinatorAdminSocketName);
}

absl::Status CoordinatorProcess::Start() {
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(
      {ProgramPath("kvtier-coordinator"), absl::StrCat("--listen=", options_.address),
       absl::StrCat("--data_dir=", options_.data_dir),
       absl::StrCat("--socket_dir=", options_.socket_dir)},
      options_.log);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  grpc::ChannelArguments arguments = LinkArguments();
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  channel_ =
      grpc::CreateCustomChannel(options_.address, grpc::InsecureChannelCredentials(), arguments);
  admin_ = v1::CoordinatorAdmin::NewStub(
      grpc::CreateCustomChannel(admin_address(), grpc::InsecureChannelCredentials(), arguments));
  if (Await(kCoordinatorStartLimit, [&] { return TryStatus().ok() || !process_->Running(); }) &&
      process_->Running()) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("the coordinator is not ready: ", FileTail(options_.log, 800)));
}

absl::StatusOr<v1::CoordinatorStatusResponse> CoordinatorProcess::TryStatus() {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::CoordinatorStatusResponse response;
  const grpc::Status status = admin_->Status(&context, {}, &response);
  if (!status.ok()) return convert::FromGrpc(status);
  return response;
}

int CoordinatorProcess::Holders(const PeerName& name) {
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::LookupRequest request;
  request.set_peer_name(convert::ToWire(name));
  v1::LookupResponse response;
  if (!admin_->Lookup(&context, request, &response).ok()) return 0;
  std::set<std::string> nodes;
  for (const v1::LookupResponse::Copy& copy : response.copies()) nodes.insert(copy.node_id());
  return static_cast<int>(nodes.size());
}

bool CoordinatorProcess::AwaitHolders(const PeerName& name, int count) {
  return Await(kCoordinatorSettleLimit, [&] { return Holders(name) == count; });
}

}  // namespace kvtier::testing
