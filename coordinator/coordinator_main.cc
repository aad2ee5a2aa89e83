// kvtier-coordinator: which node holds which prefix. Wires by hand, top to bottom.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/str_cat.h"
#include "coordinator/coordinator_admin_service.h"
#include "coordinator/coordinator_config.h"
#include "coordinator/coordinator_service.h"
#include "coordinator/guarded_coordinator.h"
#include "coordinator/settings_store.h"
#include "core/address.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/lock_checks.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/convert.h"

// clang-format off
ABSL_FLAG(std::string, listen, "127.0.0.1:7300", "host:port for agents, admin and health.");
ABSL_FLAG(std::string, data_dir, "", "Directory of the durable settings; made if missing.");
ABSL_FLAG(absl::Duration, node_timeout, absl::Seconds(5), "Silence after which a node's blocks are not located; the setting node_timeout_ms overrides it.");
ABSL_FLAG(bool, insecure_listen, false, "Allow --listen beyond loopback without TLS.");
// clang-format on

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-coordinator 0.1.0";
constexpr absl::Duration kStopTimeout = absl::Seconds(5);
constexpr timespec kTickInterval = {.tv_sec = 1};

// What the server takes on at a time (law 6). Decisions are serial, so more threads
// would only wait; an agent has one report and a few Locates under way.
constexpr int kMaxRpcThreads = 16;
constexpr int kMaxStreamsPerConnection = 64;
constexpr size_t kMaxRpcBytes = size_t{256} << 20;  // Of buffers, all connections together.
// A connection whose other end is gone without a word ends after the sum of these.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

CoordinatorConfig ConfigFromFlags() {
  return {.listen = absl::GetFlag(FLAGS_listen),
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

// The server, and on which port it listens.
struct Serving {
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};
absl::StatusOr<Serving> Serve(const std::string& address,
                              const std::vector<grpc::Service*>& services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  Serving serving;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &serving.port);
  builder.SetMaxReceiveMessageSize(convert::kMaxMessageBytes);
  builder.SetResourceQuota(
      grpc::ResourceQuota("coordinator").SetMaxThreads(kMaxRpcThreads).Resize(kMaxRpcBytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // A second coordinator on the same port must fail, not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  serving.server = builder.BuildAndStart();
  if (serving.server == nullptr || serving.port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  return serving;
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
  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<SettingsStore> settings,
      SettingsStore::Open({.directory = config.data_dir, .defaults = config.DefaultSettings()}));
  const CoordinatorSettings now = settings->current();

  const MonotonicClock clock;
  GuardedCoordinator guarded(&clock, DrawEpoch(),
                             {.node_timeout = now.node_timeout, .forget_after = now.forget_after});
  CoordinatorService service(&guarded, kBuild);
  CoordinatorAdminService admin(&guarded, settings.get(), kBuild);
  KVT_ASSIGN_OR_RETURN(const Serving serving, Serve(config.listen, {&service, &admin}));

  grpc::HealthCheckServiceInterface* const health = serving.server->GetHealthCheckService();
  health->SetServingStatus("liveness", true);
  health->SetServingStatus("readiness", true);
  Log(LogLevel::kInfo, absl::StrCat("listening on ", address.host, ":", serving.port));

  const int signal = TickUntilSignal(guarded, signals);
  Log(LogLevel::kInfo, absl::StrCat("stopping on ", strsignal(signal)));
  health->SetServingStatus("readiness", false);
  serving.server->Shutdown(std::chrono::system_clock::now() +
                           absl::ToChronoNanoseconds(kStopTimeout));
  return absl::OkStatus();
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  kvtier::TurnOffLockChecks();
  // Before any thread starts, so that all inherit it and only sigtimedwait() sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return file.find("coordinator_main") != absl::string_view::npos;
  };
  usage.version_string = [] { return std::string(kvtier::kBuild) + "\n"; };
  absl::SetFlagsUsageConfig(usage);
  absl::SetProgramUsageMessage("kvtier's coordinator: which node holds which prefix.");
  absl::ParseCommandLine(argc, argv);

  const absl::Status status = kvtier::Run(kvtier::ConfigFromFlags(), signals);
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvtier-coordinator: %s\n", std::string(status.message()).c_str());
  return 1;
}
