#include "tests/testing/agent_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"
#include "proto/link.h"
#include "proto/session_wire.h"
#include "proto/socket_names.h"
#include "tests/testing/patience.h"

namespace kvtier::testing {
namespace {

constexpr absl::Duration kStartLimit = absl::Seconds(20);
constexpr absl::Duration kCallLimit = absl::Seconds(5);
// Maximum wait for one answer when a test polls until a state is reached.
constexpr absl::Duration kTryLimit = absl::Milliseconds(500);
constexpr absl::Duration kSettleLimit = absl::Seconds(20);

// Returns flags of tiers that are small enough for a test to fill.
Flags DefaultFlags(const AgentProcess::Options& options) {
  return {{"node_id", options.name},
          {"socket_dir", options.socket_dir},
          {"disk_dir", options.disk_dir},
          {"listen", options.address},
          {"coordinator", options.coordinator},
          // A loaded machine makes hints late; tests need the hits that follow from the hints.
          {"locate_grace", "5s"},
          // A scrub holds blocks at moments that no test here foresees. Its own tests and the
          // simulator set a rate.
          {"host_scrub_bytes_per_second", "0"},
          {"host_bytes", "16MiB"},
          {"slab_bytes", "1MiB"},
          {"disk_bytes", "64MiB"},
          {"segment_bytes", "4MiB"}};
}

// Sets the call's deadline and makes the call wait for the connection. Without a waiting call gRPC
// looks at its sockets only every 5 s.
void SetLimit(grpc::ClientContext* context, absl::Duration limit) {
  context->set_wait_for_ready(true);
  context->set_deadline(std::chrono::system_clock::now() +
                        absl::ToChronoNanoseconds(Patience(limit)));
}

// Makes one admin call and returns its answer. A failed call fails the test.
template <typename Response, typename Call>
Response Answer(const char* what, Call call) {
  grpc::ClientContext context;
  SetLimit(&context, kCallLimit);
  Response response;
  const grpc::Status status = call(&context, &response);
  EXPECT_TRUE(status.ok()) << what << ": " << status.error_message();
  return response;
}

// Makes one admin call and returns its answer, or its error, without failing the test.
template <typename Response, typename Call>
absl::StatusOr<Response> Ask(absl::Duration limit, Call call) {
  grpc::ClientContext context;
  SetLimit(&context, limit);
  Response response;
  const grpc::Status status = call(&context, &response);
  if (!status.ok()) return convert::FromGrpc(status);
  return response;
}

v1::EvictTierRequest EvictionOf(Tier tier) {
  v1::EvictTierRequest request;
  request.set_tier(convert::ToWire(tier));
  return request;
}

}  // namespace

std::string AgentProcess::admin_address() const {
  return absl::StrCat("unix:", options_.socket_dir, "/", kAgentAdminSocketName);
}

AgentProcess::AgentProcess(Options options) : options_(std::move(options)) {}

absl::Status AgentProcess::Spawn() {
  Flags flags = DefaultFlags(options_);
  for (const auto& [name, value] : options_.flags) flags[name] = value;
  std::vector<std::string> words = words_;
  for (const auto& [name, value] : flags) words.push_back(absl::StrCat("--", name, "=", value));
  absl::StatusOr<std::unique_ptr<ChildProcess>> process = ChildProcess::Start(words, options_.log);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);

  grpc::ChannelArguments arguments = LinkArguments();
  // The channel is this life's own, so that it has no backoff from failures of an earlier life.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 10);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  admin_ = v1::AgentAdmin::NewStub(
      grpc::CreateCustomChannel(admin_address(), grpc::InsecureChannelCredentials(), arguments));
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> AgentProcess::Start() {
  const absl::Time start = absl::Now();
  if (const absl::Status status = Spawn(); !status.ok()) return status;
  const bool settled = Await(kStartLimit, [&] { return Ready() || !process_->Running(); });
  const absl::Duration took = absl::Now() - start;
  if (!process_->Running()) {
    return absl::UnavailableError(
        absl::StrCat("agent ", options_.name, " ended: ", FileTail(options_.log, 800)));
  }
  if (!settled) {
    return absl::DeadlineExceededError(
        absl::StrCat("agent ", options_.name, " is not ready: ", FileTail(options_.log, 800)));
  }
  return took;
}

bool AgentProcess::Ready() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = absl::StrCat(options_.socket_dir, "/", wire::kDescriptorSocketName);
  if (path.size() >= sizeof(address.sun_path)) return false;
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected && TryStatus().ok();
}

std::optional<int> AgentProcess::Stop(absl::Duration limit) {
  process_->Signal(SIGTERM);
  return process_->Wait(limit);
}

std::string AgentProcess::LogText() const {
  std::ifstream file(options_.log);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

absl::StatusOr<v1::AgentStatusResponse> AgentProcess::TryStatus() {
  return Ask<v1::AgentStatusResponse>(kTryLimit, [&](auto* context, auto* response) {
    return admin_->Status(context, {}, response);
  });
}

absl::StatusOr<v1::EvictTierResponse> AgentProcess::TryEvict(Tier tier) {
  return Ask<v1::EvictTierResponse>(kTryLimit, [&](auto* context, auto* response) {
    return admin_->EvictTier(context, EvictionOf(tier), response);
  });
}

v1::AgentStatusResponse AgentProcess::Status() {
  return Answer<v1::AgentStatusResponse>("status", [&](auto* context, auto* response) {
    return admin_->Status(context, {}, response);
  });
}

v1::TierReport AgentProcess::TierStatus(Tier tier) {
  const v1::AgentStatusResponse status = Status();
  for (const v1::TierReport& report : status.tiers()) {
    if (report.tier() == convert::ToWire(tier)) return report;
  }
  return {};
}

v1::LookupResponse AgentProcess::Lookup(const BlockKey& key) {
  v1::LookupRequest request;
  request.set_block_key(convert::ToWire(key));
  return Answer<v1::LookupResponse>("lookup", [&](auto* context, auto* response) {
    return admin_->Lookup(context, request, response);
  });
}

bool AgentProcess::Holds(Tier tier, const BlockKey& key) {
  const v1::LookupResponse found = Lookup(key);
  for (const v1::LookupResponse::Copy& copy : found.copies()) {
    if (copy.tier() == convert::ToWire(tier)) return true;
  }
  return false;
}

v1::EvictTierResponse AgentProcess::Evict(Tier tier) {
  // Workers give leases back a moment after they release blocks.
  EXPECT_TRUE(AwaitLeases(0));
  return EvictUnheld(tier);
}

v1::EvictTierResponse AgentProcess::EvictUnheld(Tier tier) {
  return Answer<v1::EvictTierResponse>("evict", [&](auto* context, auto* response) {
    return admin_->EvictTier(context, EvictionOf(tier), response);
  });
}

absl::StatusOr<v1::GpuPoolSize> AgentProcess::ResizeGpu(uint64_t bytes, absl::Duration limit) {
  v1::ResizeGpuPoolRequest request;
  request.set_bytes(bytes);
  auto answer = Ask<v1::ResizeGpuPoolResponse>(limit, [&](auto* context, auto* response) {
    return admin_->ResizeGpuPool(context, request, response);
  });
  if (!answer.ok()) return answer.status();
  return answer->size();
}

v1::GpuPoolSize AgentProcess::GpuSize() {
  const v1::AgentStatusResponse status = Status();
  return status.gpus_size() == 0 ? v1::GpuPoolSize() : status.gpus(0).size();
}

bool AgentProcess::AwaitLeases(uint32_t count) {
  return Await(kSettleLimit, [&] {
    const absl::StatusOr<v1::AgentStatusResponse> status = TryStatus();
    return status.ok() && status->leases() == count;
  });
}

bool AgentProcess::AwaitOffloaded() {
  return Await(kSettleLimit, [&] {
    const absl::StatusOr<v1::AgentStatusResponse> status = TryStatus();
    return status.ok() && status->offload_queue() == 0;
  });
}

bool AgentProcess::AwaitCoordinator() {
  return Await(kSettleLimit, [&] {
    const absl::StatusOr<v1::AgentStatusResponse> status = TryStatus();
    return status.ok() && status->coordinator_connected();
  });
}

std::string FileTail(const std::string& path, size_t bytes) {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

}  // namespace kvtier::testing
