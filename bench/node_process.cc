#include "bench/node_process.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "grpcpp/create_channel.h"
#include "proto/convert.h"
#include "proto/socket_names.h"

namespace kvtier::bench {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(30);
constexpr absl::Duration kOffloadTimeout = absl::Seconds(120);
constexpr absl::Duration kReleaseTimeout = absl::Seconds(10);
constexpr absl::Duration kPoll = absl::Milliseconds(1);

template <typename Fn>
absl::Status PollUntil(absl::Duration timeout, const char* what, Fn done) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() > deadline) return absl::UnavailableError(absl::StrCat("waited for ", what));
    absl::SleepFor(kPoll);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::AgentStatusResponse> StatusFrom(v1::AgentAdmin::Stub* admin) {
  grpc::ClientContext context;
  v1::AgentStatusResponse response;
  const grpc::Status status = admin->Status(&context, v1::AgentStatusRequest(), &response);
  if (!status.ok()) return convert::FromGrpc(status);
  return response;
}

}  // namespace

std::string FreeAddress() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  KVT_CHECK(bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0);
  KVT_CHECK(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  close(fd);
  return absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
}

absl::StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::StartAgent(
    const std::string& node_id, const std::vector<std::string>& flags) {
  std::unique_ptr<NodeProcess> node(new NodeProcess(MakeScratchDirectory(), FreeAddress()));
  std::vector<std::string> all = {absl::StrCat("--node_id=", node_id),
                                  absl::StrCat("--socket_dir=", node->directory_),
                                  absl::StrCat("--listen=", node->address_)};
  for (const std::string& flag : flags) {
    // Each node gets its own disk directory.
    all.push_back(flag == "--disk_dir" ? absl::StrCat(flag, "=", node->directory_, "/disk") : flag);
  }
  KVT_RETURN_IF_ERROR(node->Spawn("kvtier-agent", all));
  KVT_RETURN_IF_ERROR(PollUntil(kStartTimeout, "the agent", [&] { return node->Status().ok(); }));
  return node;
}

absl::StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::StartCoordinator() {
  std::unique_ptr<NodeProcess> node(new NodeProcess(MakeScratchDirectory(), FreeAddress()));
  KVT_RETURN_IF_ERROR(
      node->Spawn("kvtier-coordinator", {absl::StrCat("--listen=", node->address_),
                                         absl::StrCat("--data_dir=", node->directory_, "/data"),
                                         absl::StrCat("--socket_dir=", node->directory_)}));
  return node;
}

absl::Status NodeProcess::Spawn(const std::string& program, const std::vector<std::string>& flags) {
  KVT_ASSIGN_OR_RETURN(process_, ChildProcess::Start(program, flags, directory_ + "/log"));
  return absl::OkStatus();
}

NodeProcess::~NodeProcess() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::unique_ptr<v1::AgentAdmin::Stub> NodeProcess::Admin() const {
  grpc::ChannelArguments arguments;
  // Otherwise it would share the connection, and the pause after a failed one, of earlier channels.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::AgentAdmin::NewStub(
      grpc::CreateCustomChannel(absl::StrCat("unix:", directory_, "/", kAgentAdminSocketName),
                                grpc::InsecureChannelCredentials(), arguments));
}

absl::StatusOr<v1::AgentStatusResponse> NodeProcess::Status() const {
  return StatusFrom(Admin().get());
}

absl::StatusOr<v1::TierReport> NodeProcess::Tier(v1::Tier tier) const {
  KVT_ASSIGN_OR_RETURN(const v1::AgentStatusResponse status, Status());
  for (const v1::TierReport& report : status.tiers()) {
    if (report.tier() == tier) return report;
  }
  return absl::NotFoundError(absl::StrCat("the agent has no tier ", v1::Tier_Name(tier)));
}

absl::StatusOr<double> NodeProcess::ProcessorSeconds() const {
  clockid_t clock{};
  timespec taken{};
  if (clock_getcpuclockid(process_->pid(), &clock) != 0 || clock_gettime(clock, &taken) != 0) {
    return absl::InternalError("the kernel does not say the agent's processor time");
  }
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(taken));
}

absl::Status NodeProcess::EvictHost() const {
  const std::unique_ptr<v1::AgentAdmin::Stub> admin = Admin();
  return PollUntil(kReleaseTimeout, "every block of host memory to be let go", [&] {
    grpc::ClientContext context;
    v1::EvictTierRequest request;
    request.set_tier(v1::TIER_HOST);
    v1::EvictTierResponse response;
    return admin->EvictTier(&context, request, &response).ok() && response.held_blocks() == 0;
  });
}

absl::Status NodeProcess::AwaitOffload() const {
  const std::unique_ptr<v1::AgentAdmin::Stub> admin = Admin();
  return PollUntil(kOffloadTimeout, "the disk to catch up", [&] {
    const absl::StatusOr<v1::AgentStatusResponse> status = StatusFrom(admin.get());
    return status.ok() && status->offload_queue() == 0;
  });
}

}  // namespace kvtier::bench
