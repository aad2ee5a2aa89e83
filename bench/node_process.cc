#include "bench/node_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/command_output.h"
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
constexpr int kReconnectMs = 20;
constexpr absl::Duration kPoll = absl::Milliseconds(1);

// Sockets need a short path, disks a real file system; /var/tmp is both.
std::string MakeDirectory() {
  std::string name = "/var/tmp/kvtier-bench-XXXXXX";
  KVT_CHECK(mkdtemp(name.data()) != nullptr);
  return name;
}

template <typename Fn>
absl::Status PollUntil(absl::Duration timeout, const char* what, Fn done) {
  const absl::Time deadline = absl::Now() + timeout;
  while (!done()) {
    if (absl::Now() > deadline) return absl::UnavailableError(absl::StrCat("waited for ", what));
    absl::SleepFor(kPoll);
  }
  return absl::OkStatus();
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
  std::unique_ptr<NodeProcess> node(new NodeProcess(MakeDirectory(), FreeAddress()));
  std::vector<std::string> all = {absl::StrCat("--node_id=", node_id),
                                  absl::StrCat("--socket_dir=", node->directory_),
                                  absl::StrCat("--listen=", node->address_)};
  for (const std::string& flag : flags) {
    // A disk directory is the node's own.
    all.push_back(flag == "--disk_dir" ? absl::StrCat(flag, "=", node->directory_, "/disk") : flag);
  }
  KVT_RETURN_IF_ERROR(node->Spawn("kvtier-agent", all));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  node->admin_ = v1::AgentAdmin::NewStub(
      grpc::CreateCustomChannel(absl::StrCat("unix:", node->directory_, "/", kAgentAdminSocketName),
                                grpc::InsecureChannelCredentials(), arguments));
  KVT_RETURN_IF_ERROR(PollUntil(kStartTimeout, "the agent", [&] { return node->Status().ok(); }));
  return node;
}

absl::StatusOr<std::unique_ptr<NodeProcess>> NodeProcess::StartCoordinator() {
  std::unique_ptr<NodeProcess> node(new NodeProcess(MakeDirectory(), FreeAddress()));
  KVT_RETURN_IF_ERROR(
      node->Spawn("kvtier-coordinator", {absl::StrCat("--listen=", node->address_),
                                         absl::StrCat("--data_dir=", node->directory_, "/data"),
                                         absl::StrCat("--socket_dir=", node->directory_)}));
  return node;
}

absl::Status NodeProcess::Spawn(const std::string& program, const std::vector<std::string>& flags) {
  const std::filesystem::path path =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / program;
  std::vector<std::string> words = {path};
  words.insert(words.end(), flags.begin(), flags.end());
  std::vector<char*> arguments = ArgumentsOf(&words);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const std::string log = directory_ + "/log";
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                   O_CREAT | O_WRONLY | O_APPEND, 0600);
  const int error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return absl::UnavailableError(absl::StrCat(path.string(), ": ", strerror(error)));
}

NodeProcess::~NodeProcess() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

absl::StatusOr<v1::AgentStatusResponse> NodeProcess::Status() const {
  grpc::ClientContext context;
  v1::AgentStatusResponse response;
  const grpc::Status status = admin_->Status(&context, v1::AgentStatusRequest(), &response);
  if (!status.ok()) return convert::FromGrpc(status);
  return response;
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
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &taken) != 0) {
    return absl::InternalError("the kernel does not say the agent's processor time");
  }
  return absl::ToDoubleSeconds(absl::DurationFromTimespec(taken));
}

absl::Status NodeProcess::EvictHost() const {
  return PollUntil(kReleaseTimeout, "every block of host memory to be let go", [&] {
    grpc::ClientContext context;
    v1::EvictTierRequest request;
    request.set_tier(v1::TIER_HOST);
    v1::EvictTierResponse response;
    return admin_->EvictTier(&context, request, &response).ok() && response.held_blocks() == 0;
  });
}

absl::Status NodeProcess::AwaitOffload() const {
  return PollUntil(kOffloadTimeout, "the disk to catch up", [&] {
    const absl::StatusOr<v1::AgentStatusResponse> status = Status();
    return status.ok() && status->offload_queue() == 0;
  });
}

}  // namespace kvtier::bench
