// kvtier-agent: one node's agent. This file wires the real seams by hand, top to
// bottom, and takes them down in the opposite order.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "agent/admin_service.h"
#include "agent/agent.h"
#include "agent/agent_config.h"
#include "agent/descriptor_socket.h"
#include "agent/grpc_coordinator_link.h"
#include "agent/grpc_peer_transport.h"
#include "agent/limits.h"
#include "agent/node_disks.h"
#include "agent/peer_service.h"
#include "agent/worker_service.h"
#include "core/byte_size.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/lock_checks.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/thread_executor.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/convert.h"
#include "tier_gpu/open_device.h"

namespace kvtier {

// A size flag: "64MiB".
struct ByteSize {
  uint64_t bytes = 0;
};

bool AbslParseFlag(absl::string_view text, ByteSize* size, std::string* error) {
  const absl::StatusOr<uint64_t> bytes = ParseBytes(text);
  if (bytes.ok()) {
    size->bytes = *bytes;
  } else {
    *error = std::string(bytes.status().message());
  }
  return bytes.ok();
}

std::string AbslUnparseFlag(const ByteSize& size) { return absl::StrCat(size.bytes); }

// "64GiB", or "64GiB,128GiB".
struct ByteSizes {
  std::vector<uint64_t> bytes;
};

bool AbslParseFlag(absl::string_view text, ByteSizes* sizes, std::string* error) {
  sizes->bytes.clear();
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ByteSize size;
    if (!AbslParseFlag(part, &size, error)) return false;
    sizes->bytes.push_back(size.bytes);
  }
  return true;
}

std::string AbslUnparseFlag(const ByteSizes& sizes) { return absl::StrJoin(sizes.bytes, ","); }

bool AbslParseFlag(absl::string_view text, WritePolicy* policy, std::string* error) {
  const absl::StatusOr<WritePolicy> parsed = ParseWritePolicy(text);
  if (parsed.ok()) *policy = *parsed;
  if (!parsed.ok()) *error = std::string(parsed.status().message());
  return parsed.ok();
}

std::string AbslUnparseFlag(WritePolicy policy) { return WritePolicyName(policy); }

bool AbslParseFlag(absl::string_view text, WriteMoment* moment, std::string* error) {
  const absl::StatusOr<WriteMoment> parsed = ParseWriteMoment(text);
  if (parsed.ok()) *moment = *parsed;
  if (!parsed.ok()) *error = std::string(parsed.status().message());
  return parsed.ok();
}

std::string AbslUnparseFlag(WriteMoment moment) { return WriteMomentName(moment); }

}  // namespace kvtier

// clang-format off
ABSL_FLAG(std::string, node_id, "", "Name of this node, unique in the cluster.");
ABSL_FLAG(std::string, socket_dir, "/run/kvtier", "Directory of the workers' two Unix sockets.");
ABSL_FLAG(std::string, listen, "127.0.0.1:7301", "host:port for peers, admin and health.");
ABSL_FLAG(std::string, advertise, "", "host:port by which other nodes reach --listen; empty: the same.");
ABSL_FLAG(std::string, coordinator, "", "host:port of the coordinator; empty: this node runs alone.");
ABSL_FLAG(kvtier::ByteSize, host_bytes, {uint64_t{1} << 30}, "Host memory for blocks, touched at start.");
ABSL_FLAG(kvtier::ByteSize, slab_bytes, {uint64_t{64} << 20}, "Largest block, and the unit that block sizes share.");
ABSL_FLAG(std::vector<std::string>, disk_dir, {}, "Directories of the disk tier, one a disk, separated by commas; empty: none.");
ABSL_FLAG(kvtier::ByteSizes, disk_bytes, {{uint64_t{8} << 30}}, "Bytes preallocated in each --disk_dir: one size, or one for each.");
ABSL_FLAG(std::string, disk_secret_dir, "", "Directory of the secret (file master) that blocks on disk are encrypted with; empty: they are not.");
ABSL_FLAG(bool, disk_buffered, false, "For file systems without O_DIRECT: disk I/O through the page cache, each write synced.");
ABSL_FLAG(kvtier::ByteSize, segment_bytes, {uint64_t{256} << 20}, "Size of a segment, the unit of reclaim.");
ABSL_FLAG(kvtier::WritePolicy, disk_write_policy, kvtier::DiskWriteOptions().policy, "Which blocks are written to disk: all, second_touch, or predicted_reuse (without --disk_writes_per_day: all).");
ABSL_FLAG(kvtier::WriteMoment, disk_write_moment, kvtier::DiskWriteOptions().moment, "When: at their commit, or at their eviction from host memory.");
ABSL_FLAG(double, disk_writes_per_day, kvtier::DiskWriteOptions().drive_writes_per_day, "How often a day each disk may be written whole (drive writes per day, of --disk_bytes), 0 to 100; 0: no budget.");
ABSL_FLAG(kvtier::ByteSize, scrub_bytes_per_second, {kvtier::kScrubBytesPerSecond}, "Read to verify what is on disk, in the background; 0: only on `kvtier disk verify`.");
ABSL_FLAG(kvtier::ByteSize, gpu_bytes, {0}, "Device memory for blocks; 0: no GPU pool.");
ABSL_FLAG(kvtier::ByteSize, gpu_block_bytes, {0}, "Size of the blocks that --gpu_bytes is for.");
ABSL_FLAG(std::string, device, "auto", "auto, cuda:N or emulated; used with --gpu_bytes.");
ABSL_FLAG(std::string, tenants_dir, "", "Directory with a secret file for each tenant; empty: one open tenant.");
ABSL_FLAG(std::vector<std::string>, allow_uids, {}, "User ids of workers; empty: the agent's own.");
ABSL_FLAG(int, byte_threads, 2, "Threads for checksums and copies.");
ABSL_FLAG(bool, insecure_listen, false, "Allow --listen beyond loopback without TLS.");
// clang-format on

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-agent 0.1.0";
constexpr mode_t kSocketMode = 0660;
// Calls under way get this long; then their connections are cut. Not longer: gRPC waits
// for idle clients too, and one that does nothing looks at its socket every 5 s.
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);
// And the flows that they started this long: I/O in the kernel cannot be called back.
constexpr absl::Duration kStopTimeout = absl::Seconds(10);
// Threads of the gRPC servers: peers' streams, and some for the rest.
constexpr int kMaxRpcThreads = static_cast<int>(kMaxPeerStreamsServed) + 16;

absl::StatusOr<AgentConfig> ConfigFromFlags() {
  AgentConfig config{
      .node_id = absl::GetFlag(FLAGS_node_id),
      .socket_dir = absl::GetFlag(FLAGS_socket_dir),
      .listen = absl::GetFlag(FLAGS_listen),
      .advertise = absl::GetFlag(FLAGS_advertise),
      .coordinator = absl::GetFlag(FLAGS_coordinator),
      .host_bytes = absl::GetFlag(FLAGS_host_bytes).bytes,
      .slab_bytes = absl::GetFlag(FLAGS_slab_bytes).bytes,
      .disk_dirs = absl::GetFlag(FLAGS_disk_dir),
      .disk_bytes = absl::GetFlag(FLAGS_disk_bytes).bytes,
      .disk_secret_dir = absl::GetFlag(FLAGS_disk_secret_dir),
      .disk_buffered = absl::GetFlag(FLAGS_disk_buffered),
      .segment_bytes = absl::GetFlag(FLAGS_segment_bytes).bytes,
      .disk_writes = {.policy = absl::GetFlag(FLAGS_disk_write_policy),
                      .moment = absl::GetFlag(FLAGS_disk_write_moment),
                      .drive_writes_per_day = absl::GetFlag(FLAGS_disk_writes_per_day)},
      .scrub_bytes_per_second = absl::GetFlag(FLAGS_scrub_bytes_per_second).bytes,
      .gpu_bytes = absl::GetFlag(FLAGS_gpu_bytes).bytes,
      .gpu_block_bytes = absl::GetFlag(FLAGS_gpu_block_bytes).bytes,
      .device = absl::GetFlag(FLAGS_device),
      .tenants_dir = absl::GetFlag(FLAGS_tenants_dir),
      .byte_threads = absl::GetFlag(FLAGS_byte_threads),
      .insecure_listen = absl::GetFlag(FLAGS_insecure_listen)};
  for (const std::string& text : absl::GetFlag(FLAGS_allow_uids)) {
    uint32_t uid = 0;
    if (!absl::SimpleAtoi(text, &uid)) {
      return absl::InvalidArgumentError(absl::StrCat("--allow_uids=", text, ": no user id"));
    }
    config.allow_uids.push_back(uid);
  }
  if (config.allow_uids.empty()) config.allow_uids.push_back(geteuid());
  if (config.advertise.empty()) config.advertise = config.listen;
  KVT_RETURN_IF_ERROR(config.Validate());
  return config;
}

// One agent a socket directory: the lock goes with the process.
absl::Status LockSocketDir(const std::string& socket_dir) {
  std::error_code error;
  std::filesystem::create_directories(socket_dir, error);
  const std::string path = absl::StrCat(socket_dir, "/kvtier.lock");
  const int fd = open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return absl::UnavailableError(absl::StrCat(path, ": ", strerror(errno)));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(
        absl::StrCat("--socket_dir=", socket_dir, ": another agent uses it"));
  }
  return absl::OkStatus();  // The descriptor stays open for life.
}

// A session takes two descriptors (its socket and its gRPC connection): the usual soft
// limit of 1024 is too low for kMaxSessions.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // The old limit stays when it is refused.
}

Epoch DrawEpoch() {
  Epoch epoch;
  KVT_CHECK(getrandom(&epoch.value, sizeof(epoch.value), 0) == sizeof(epoch.value));
  epoch.value |= 1;  // 0 means none.
  return epoch;
}

absl::StatusOr<std::unique_ptr<grpc::Server>> Serve(const std::string& address,
                                                    const std::vector<grpc::Service*>& services) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(convert::kMaxMessageBytes);
  builder.SetResourceQuota(grpc::ResourceQuota("agent").SetMaxThreads(kMaxRpcThreads));
  // A second agent on the same port must fail, not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  for (const char* service : {"liveness", "readiness"}) {
    server->GetHealthCheckService()->SetServingStatus(service, true);
  }
  return server;
}

absl::StatusOr<DescriptorSocket::Shared> Share(const Agent& agent, DomainId domain,
                                               wire::DescriptorKind kind) {
  const Arena& arena = agent.host().arena(domain);
  switch (kind) {
    case wire::DescriptorKind::kArenaRead:
      return DescriptorSocket::Shared{.fd = arena.read_only_fd(), .bytes = arena.bytes().size()};
    case wire::DescriptorKind::kArenaWrite:
      return DescriptorSocket::Shared{.fd = arena.read_write_fd(), .bytes = arena.bytes().size()};
    case wire::DescriptorKind::kGpuPool:
      break;
  }
  if (agent.gpu() == nullptr) return absl::NotFoundError("this node has no GPU pool");
  return DescriptorSocket::Shared{.fd = agent.gpu()->fd(), .bytes = agent.gpu()->capacity_bytes()};
}

DescriptorSocket::Calls SessionCalls(Agent* agent) {
  Executor* const executor = agent->executor();
  return {.open =
              [agent, executor](const Tenant& tenant, const SessionToken& token) {
                return CallOn(executor, [&] { return agent->OpenSession(tenant, token); });
              },
          .close = [agent, executor](
                       SessionId id) { executor->Post([agent, id] { agent->CloseSession(id); }); },
          .share = [agent](DomainId domain,
                           wire::DescriptorKind kind) { return Share(*agent, domain, kind); }};
}

void WaitForStopSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  Log(LogLevel::kInfo, absl::StrCat("stopping on ", strsignal(signal)));
}

// What the servers of a running agent need.
struct ServedParts {
  Agent* agent = nullptr;
  GrpcPeerTransport* transport = nullptr;
  const std::vector<NodeDisk>* disks = nullptr;
  const Device* device = nullptr;  // Null: none.
};

// Answers workers, peers and operators until a signal; nobody is answered any more when
// it returns. Errors: kUnavailable, something cannot be listened on.
absl::Status ServeUntilSignal(const AgentConfig& config, const ServedParts& parts,
                              const sigset_t& signals) {
  WorkerService worker_service(parts.agent);
  PeerService peer_service(parts.agent);
  AdminService::About about{.build = kBuild,
                            .coordinator = config.coordinator,
                            .disk_io = parts.disks->empty() ? "none" : "io_uring",
                            .device = parts.device == nullptr ? "none" : parts.device->name()};
  for (const NodeDisk& disk : *parts.disks) {
    AdminService::AboutDisk& told = about.disks.emplace_back();
    told.directory = disk.directory;
    told.error = disk.opened.status();
    if (!disk.opened.ok()) continue;
    told.io = disk.io_name();
    if (disk.opened->io != DiskIoKind::kUring) about.disk_io = "pread";
  }
  AdminService admin_service(parts.agent, std::move(about));
  grpc::EnableDefaultHealthCheckService(true);
  const std::string control = absl::StrCat(config.socket_dir, "/", wire::kControlSocketName);
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> local,
                       Serve(absl::StrCat("unix:", control), {&worker_service, &admin_service}));
  chmod(control.c_str(), kSocketMode);
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<grpc::Server> remote,
                       Serve(config.listen, {&peer_service, &admin_service}));
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DescriptorSocket> sessions,
                       DescriptorSocket::Listen({.path = absl::StrCat(config.socket_dir, "/",
                                                                      wire::kDescriptorSocketName),
                                                 .allowed_uids = config.allow_uids,
                                                 .tenants = &parts.agent->options().tenants},
                                                SessionCalls(parts.agent)));
  Log(LogLevel::kInfo, absl::StrCat("node ", config.node_id, ": workers at ", config.socket_dir,
                                    ", peers and admin at ", config.listen));

  WaitForStopSignal(signals);
  const auto stop_by = std::chrono::system_clock::now() + absl::ToChronoNanoseconds(kDrainTimeout);
  sessions.reset();
  CallOn(parts.agent->executor(), [&] {
    parts.transport->CancelAll();
    return true;
  });
  remote->Shutdown(stop_by);
  local->Shutdown(stop_by);
  return absl::OkStatus();
}

absl::Status Run(const AgentConfig& config, const sigset_t& signals) {
  RaiseDescriptorLimit();
  KVT_RETURN_IF_ERROR(LockSocketDir(config.socket_dir));
  KVT_ASSIGN_OR_RETURN(TenantTable tenants, ReadTenants(config.tenants_dir));
  KVT_ASSIGN_OR_RETURN(const NodeId node, NodeId::FromString(config.node_id));

  ThreadExecutor executor("decisions");
  BytePool workers(&executor, "bytes", config.byte_threads);
  KVT_ASSIGN_OR_RETURN(const std::vector<NodeDisk> disks, OpenNodeDisks(&executor, config));
  std::vector<Agent::DiskSeam> disk_seams;
  for (const NodeDisk& disk : disks) {
    if (!disk.opened.ok()) continue;
    disk_seams.push_back({.id = disk.opened->id,
                          .disk = disk.opened->disk.get(),
                          .manifest = disk.opened->manifest.get(),
                          .keys = disk.opened->keys.get()});
  }
  std::unique_ptr<Device> device;
  if (config.gpu_bytes > 0) {
    KVT_ASSIGN_OR_RETURN(device, OpenDevice(config.device, &executor, &workers));
  }
  GrpcPeerTransport transport(&executor, node);
  std::unique_ptr<GrpcCoordinatorLink> coordinator;
  if (!config.coordinator.empty()) {
    coordinator = std::make_unique<GrpcCoordinatorLink>(&executor, config.coordinator, kBuild);
  }

  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Agent> agent,
                       Agent::Create({.node = node,
                                      .epoch = DrawEpoch(),
                                      .address = config.advertise,
                                      .tenants = std::move(tenants),
                                      .host_bytes = config.host_bytes,
                                      .slab_bytes = config.slab_bytes,
                                      .disk_writes = config.disk_writes,
                                      .scrub_bytes_per_second = config.scrub_bytes_per_second,
                                      .gpu_bytes = config.gpu_bytes,
                                      .gpu_block_bytes = config.gpu_block_bytes},
                                     {.executor = &executor,
                                      .workers = &workers,
                                      .disks = std::move(disk_seams),
                                      .device = device.get(),
                                      .transport = &transport,
                                      .coordinator = coordinator.get()}));
  const absl::Time started = executor.Now();
  const absl::StatusOr<DiskSet::Recovery> recovery =
      AwaitOn(&executor, agent->scope(), agent->Start());
  absl::Status served = recovery.status();
  if (recovery.ok()) {
    LogRecovery(disks, *recovery, executor.Now() - started);
    served = ServeUntilSignal(
        config,
        {.agent = agent.get(), .transport = &transport, .disks = &disks, .device = device.get()},
        signals);
  }
  // In this order whatever happened: the flows end, then the thread they run on, and
  // only then is anything they use destroyed.
  TaskScope stopping(&executor);
  if (!AwaitOn(&executor, &stopping, agent->Stop(executor.Now() + kStopTimeout))) {
    // Something hangs in the kernel or a driver; the disk tier is crash-safe.
    Log(LogLevel::kError, "stopped with I/O in flight");
    _exit(1);
  }
  executor.Stop();
  return served;
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  kvtier::TurnOffLockChecks();
  // Before any thread starts, so that all inherit it and only sigwait() sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::string_view(file).find("agent_main") != absl::string_view::npos;
  };
  usage.version_string = [] { return std::string(kvtier::kBuild) + "\n"; };
  absl::SetFlagsUsageConfig(usage);
  absl::SetProgramUsageMessage("One node's kvtier agent: tiers, workers, peers.");
  absl::ParseCommandLine(argc, argv);

  const absl::StatusOr<kvtier::AgentConfig> config = kvtier::ConfigFromFlags();
  const absl::Status status = config.ok() ? kvtier::Run(*config, signals) : config.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvtier-agent: %s\n", std::string(status.message()).c_str());
  return 1;
}
