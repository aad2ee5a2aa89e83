#include "bench/empty_call.h"

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/status_macros.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"

namespace kvtier::bench {
namespace {

constexpr absl::Duration kLongestCall = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::unique_ptr<EmptyCall>> EmptyCall::Open() {
  std::unique_ptr<EmptyCall> call(new EmptyCall(MakeScratchDirectory()));
  const std::string socket = call->directory_ + "/socket";
  KVT_ASSIGN_OR_RETURN(call->server_, ChildProcess::Start("bench_empty_server", {socket},
                                                          call->directory_ + "/log"));
  call->stub_ = v1::Worker::NewStub(
      grpc::CreateChannel(absl::StrCat("unix:", socket), grpc::InsecureChannelCredentials()));
  KVT_RETURN_IF_ERROR(call->Send());
  return call;
}

EmptyCall::~EmptyCall() {
  stub_.reset();
  server_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::Status EmptyCall::Send() {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kLongestCall));
  context.set_wait_for_ready(true);
  v1::PingResponse response;
  return convert::FromGrpc(stub_->Ping(&context, v1::PingRequest(), &response));
}

}  // namespace kvtier::bench
