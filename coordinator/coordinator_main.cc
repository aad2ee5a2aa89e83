// Runs kvtier-coordinator, which knows which node holds which prefix. Wires by hand, top to bottom.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "coordinator/coordinator_admin_service.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/coordinator_remote_admin_service.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/guarded_coordinator.h"
#include "coordinator/settings_store.h"
#include "core/address.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/listening_socket.h"
#include "core/lock_checks.h"
#include "core/log.h"
#include "core/memory_watch.h"
#include "core/program_flags_config.h"
#include "core/program_signals.h"
#include "core/start_progress.h"
#include "core/status_macros.h"
#include "core/thread_limit.h"
#include "proto/rpc_door.h"
#include "proto/socket_names.h"

// clang-format off
ABSL_FLAG(std::string, listen, "127.0.0.1:7300", "host:port for agents, status and health.");
ABSL_FLAG(std::string, socket_dir, "/run/kvtier-coordinator", "Directory of the Unix socket for operators; made if missing.");
ABSL_FLAG(std::string, data_dir, "", "Directory of the durable settings; made if missing.");
ABSL_FLAG(absl::Duration, node_timeout, absl::Seconds(5), "Time without a report after which a node's blocks are no longer found; the setting node_timeout_ms overrides it.");
ABSL_FLAG(bool, insecure_listen, false, "Allow --listen beyond loopback without TLS.");
// clang-format on

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-coordinator 0.1.0";
constexpr absl::Duration kStopTimeout = absl::Seconds(5);
constexpr timespec kTickInterval = {.tv_sec = 1};

// Threads of operators' calls; those of agents take turns (CallLine).
constexpr int kMaxRpcThreads = 16;
constexpr RpcDoor::Limits kRemoteLimits = {
    .connections = 4096, .calls = 64, .intake_bytes = size_t{64} << 20, .threads = kMaxRpcThreads};
constexpr RpcDoor::Limits kAdminLimits = {
    .connections = 64, .calls = 16, .intake_bytes = size_t{16} << 20, .threads = kMaxRpcThreads};
// Memory by which the coordinator may grow: its full directory (docs/design/coordinator.md), and
// everything else. Beyond it connections are closed.
constexpr uint64_t kMaxDirectoryBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxOtherGrowth = uint64_t{512} << 20;
constexpr uint32_t kRoot = 0;

ProgramText CoordinatorText() {
  return {
      .name = "kvtier-coordinator",
      .build = kBuild,
      .summary = "knows which node of a cluster holds which KV blocks",
      .details =
          "One coordinator runs for a cluster. Agents report to it what they hold, and ask it "
          "where a block is. While it is away, agents only lose the hits on other nodes. It runs "
          "until SIGTERM or SIGINT, and then ends with status 0. When it cannot start, it prints "
          "why and ends with status 1. kvtier nodes lists the agents that it knows.",
      .flags_file = "coordinator/coordinator_main.",
      .files = {{.term = "kvtier-coordinator.sock",
                 .text = "Socket in --socket_dir for operators: root and the coordinator's user."}},
      .see_also = {{.page = "kvtier"}, {.page = "kvtier-agent", .section = 8}}};
}

CoordinatorConfig ConfigFromFlags() {
  return {.listen = absl::GetFlag(FLAGS_listen),
          .socket_dir = absl::GetFlag(FLAGS_socket_dir),
          .data_dir = absl::GetFlag(FLAGS_data_dir),
          .node_timeout = absl::GetFlag(FLAGS_node_timeout),
          .insecure_listen = absl::GetFlag(FLAGS_insecure_listen)};
}

Epoch DrawEpoch() {
  Epoch epoch;
  KVT_CHECK(getrandom(&epoch.value, sizeof(epoch.value), 0) == sizeof(epoch.value));
  epoch.value |= 1;  // 0 means none.
  return epoch;
}

// Ticks once a second until SIGTERM or SIGINT; returns which.
int TickUntilSignal(GuardedCoordinator& guarded, const sigset_t& signals) {
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &kTickInterval);
    if (signal > 0) return signal;
    KVT_CHECK(errno == EAGAIN || errno == EINTR);
    absl::MutexLock lock(&guarded.mu);
    guarded.coordinator.Tick();
  }
}

absl::Status Run(const CoordinatorConfig& config, const sigset_t& signals) {
  KVT_RETURN_IF_ERROR(config.Validate());
  KVT_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(config.listen));
  StartProgress progress;
  std::optional<EndsWhileStarting> ends(std::in_place, signals, &progress);
  progress.Begin("opens --data_dir");
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<SettingsStore> settings,
      SettingsStore::Open({.directory = config.data_dir, .defaults = config.DefaultSettings()}));
  ends.reset();
  const CoordinatorSettings now = settings->current();
  KVT_RETURN_IF_ERROR(LockSocketDir(config.socket_dir, "kvtier-coordinator.lock", "coordinator"));

  const MonotonicClock clock;
  GuardedCoordinator guarded(&clock, DrawEpoch(),
                             {.node_timeout = now.node_timeout, .forget_after = now.forget_after});
  {
    absl::MutexLock lock(&guarded.mu);
    guarded.coordinator.SetTenants(settings->tenants());
  }
  CoordinatorService service(&guarded, kBuild);
  CoordinatorAdminService admin(&guarded, settings.get(), kBuild);
  const std::string admin_socket =
      absl::StrCat(config.socket_dir, "/", kCoordinatorAdminSocketName);
  CoordinatorRemoteAdminService remote_admin(&admin, admin_socket);
  const std::array<grpc::Service*, 1> for_operators = {&admin};
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<RpcDoor> operators,
                       RpcDoor::Open({.name = "admin",
                                      .address = admin_socket,
                                      .mode = kAdminSocketMode,
                                      .uids = {kRoot, geteuid()},
                                      .health = true,
                                      .limits = kAdminLimits},
                                     for_operators));
  MemoryWatch memory(kMaxDirectoryBytes + kMaxOtherGrowth);
  const std::array<grpc::Service*, 2> for_agents = {&service, &remote_admin};
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<RpcDoor> remote,
      RpcDoor::Open({.name = "tcp",
                     .address = config.listen,
                     .health = true,
                     .limits = kRemoteLimits,
                     .is_memory_short = [&memory] { return memory.IsOverLimit(0); }},
                    for_agents));
  if (settings->tenants().version == 0) {
    Log(LogLevel::kInfo,
        absl::StrCat("--data_dir=", config.data_dir, " has no settings, so none can be set before ",
                     "`kvtier tenants init` or, if they were lost, `kvtier tenants import`"));
  }
  Log(LogLevel::kInfo, absl::StrCat("listening on ", address.host, ":", remote->port(),
                                    ", for operators at ", admin_socket));

  const int signal = TickUntilSignal(guarded, signals);
  Log(LogLevel::kInfo, absl::StrCat("stopping on ", strsignal(signal)));
  remote->SetReady(false);
  const absl::Time stop_by = MonotonicClock().Now() + kStopTimeout;
  remote->Shutdown(stop_by);
  operators->Shutdown(stop_by);
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  kvtier::TurnOffLockChecks();
  kvtier::SayWhyNoThreadStarts("kvtier-coordinator");
  const sigset_t signals = kvtier::TakeProgramSignals();
  if (const auto end = kvtier::ParseProgramFlags(kvtier::CoordinatorText(), argc, argv)) {
    return *end;
  }
  const absl::Status status = kvtier::Run(kvtier::ConfigFromFlags(), signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvtier-coordinator: %s\n", std::string(status.message()).c_str());
  return 1;
}
