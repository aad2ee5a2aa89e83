// kvtier-agent: one node's agent. This file wires the real seams by hand, top to
// bottom, and takes them down in the opposite order.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "agent/agent.h"
#include "agent/agent_config.h"
#include "agent/agent_flags_config.h"
#include "agent/flows/tenant_files.h"
#include "agent/index/lessons_file.h"
#include "agent/named_disks.h"
#include "agent/peers/grpc_coordinator_link.h"
#include "agent/peers/grpc_peer_transport.h"
#include "agent/services/admin_service.h"
#include "agent/services/doors.h"
#include "agent/services/session_calls.h"
#include "agent/services/starting_doors.h"
#include "agent/sessions/descriptor_socket.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/free_memory.h"
#include "core/listening_socket.h"
#include "core/lock_checks.h"
#include "core/log.h"
#include "core/memory_watch.h"
#include "core/program_flags_config.h"
#include "core/program_signals.h"
#include "core/start_progress.h"
#include "core/status_macros.h"
#include "core/thread_executor.h"
#include "core/thread_limit.h"
#include "tier_gpu/device/open_device.h"
#include "tier_host/memory_binder.h"

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-agent 0.1.0";
// Calls in progress get this long; then their connections are cut. The time is not longer because
// gRPC waits for idle clients too, and an idle client looks at its socket only every 5 s.
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);
// Flows that calls started get this long, because I/O in the kernel cannot be cancelled.
constexpr absl::Duration kStopTimeout = absl::Seconds(10);
// Raises the limit of descriptors. A session takes five (its socket, its gRPC connection and the
// door's watch of that, its process and its lifeline): the usual soft limit of 1024 is too low for
// kMaxSessions.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);  // The old limit stays when it is refused.
}

ProgramText AgentText() {
  return {
      .name = "kvtier-agent",
      .build = kBuild,
      .summary = "keeps KV blocks of a node's workers in tiers, and shares them with other nodes",
      .details =
          "Workers put blocks of attention keys and values, and get them back from GPU memory, "
          "host memory, the node's disks or another node. The agent runs until SIGTERM or "
          "SIGINT, and then ends with status 0. When it cannot start, it prints why and ends with "
          "status 1. kvtier status shows its state, and kvtier doctor says why workers do not "
          "reach it.",
      .flags_file = "agent/agent_flags_config.",
      .files = {{.term = "kvtier.sock", .text = "Socket of the workers, in --socket_dir."},
                {.term = "kvtier-fd.sock",
                 .text = "Socket in --socket_dir by which workers get the memory that they map."},
                {.term = "kvtier-admin.sock",
                 .text = "Socket in --socket_dir for operators: root and the agent's user."},
                {.term = "eviction_lessons",
                 .text = "File in --lessons_dir of what the orders of eviction have learnt."},
                {.term = "tenant_settings",
                 .text = "File in --settings_dir of the settings that tenants were given."}},
      .see_also = {{.page = "kvtier"}, {.page = "kvtier-coordinator", .section = 8}}};
}

Epoch DrawEpoch() {
  Epoch epoch;
  KVT_CHECK(getrandom(&epoch.value, sizeof(epoch.value), 0) == sizeof(epoch.value));
  epoch.value |= 1;  // 0 means none.
  return epoch;
}

// Returns the devices' names; "none" of a node without a GPU pool.
std::string NamesOf(const std::vector<std::unique_ptr<Device>>& devices) {
  const auto name = [](std::string* out, const auto& device) { out->append(device->name()); };
  return devices.empty() ? "none" : absl::StrJoin(devices, ", ", name);
}

void WaitForStopSignal(const sigset_t& signals) {
  int signal = 0;
  sigwait(&signals, &signal);
  Log(LogLevel::kInfo, absl::StrCat("stopping on ", strsignal(signal)));
}

// Parts that the servers of a running agent need.
struct ServedParts {
  Agent* agent = nullptr;
  GrpcPeerTransport* transport = nullptr;
  const std::vector<NamedDisk>* disks = nullptr;
  const std::vector<std::unique_ptr<Device>>* devices = nullptr;
  std::unique_ptr<StartingDoors> starting;  // Doors that answered so far.
};

// Answers workers, peers and operators until a signal; nobody is answered any more when
// it returns. Errors: kUnavailable, something cannot be listened on.
absl::Status ServeUntilSignal(const AgentConfig& config, ServedParts parts,
                              const sigset_t& signals) {
  AdminService::About about{.build = kBuild,
                            .coordinator = config.coordinator,
                            .disk_io = "none",
                            .device = NamesOf(*parts.devices),
                            .worker_uids = config.allow_uids};
  for (const NamedDisk& disk : *parts.disks) {
    AdminService::AboutDisk& told = about.disks.emplace_back();
    told.directory = disk.directory;
    told.error = disk.opened.status();
    if (!disk.opened.ok()) continue;
    told.io = disk.io_name();
    told.encrypted = disk.opened->keys != nullptr;
    told.lost = disk.opened->lost();
    if (disk.opened->io != DiskIoKind::kUring) about.disk_io = "pread";
    if (about.disk_io == "none") about.disk_io = "io_uring";
  }
  ProvenCallers proven;
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Doors> doors,
                       Doors::Open(config, parts.agent, std::move(about),
                                   {.proven = &proven, .starting = std::move(parts.starting)}));
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DescriptorSocket> sessions,
                       DescriptorSocket::Listen({.path = absl::StrCat(config.socket_dir, "/",
                                                                      wire::kDescriptorSocketName),
                                                 .allowed_uids = config.allow_uids,
                                                 .tenants = &parts.agent->options().tenants,
                                                 .proven = &proven},
                                                SessionCalls(parts.agent)));
  const auto set_hang_up = [&](absl::AnyInvocable<void(SessionId)> hang_up) {
    CallOn(parts.agent->executor(), [&] {
      parts.agent->SetHangUp(std::move(hang_up));
      return true;
    });
  };
  set_hang_up([socket = sessions.get()](SessionId id) { socket->HangUp(id); });
  Log(LogLevel::kInfo, absl::StrCat("node ", config.node_id, ": workers and operators at ",
                                    config.socket_dir, ", peers at ", config.listen));

  WaitForStopSignal(signals);
  const absl::Time stop_by = MonotonicClock().Now() + kDrainTimeout;
  // The agent ends its calls first: gRPC waits for the end of every call, also of those that it has
  // cut off.
  CallOn(parts.agent->executor(), [&] {
    parts.agent->EndWaits();
    parts.transport->CancelAll();
    return true;
  });
  set_hang_up(nullptr);
  sessions.reset();
  doors->Shutdown(stop_by);
  return absl::OkStatus();
}

absl::Status Run(const AgentConfig& config, const sigset_t& signals) {
  KVT_RETURN_IF_ERROR(config.CheckMemory(LeastMemoryLimit()));
  KVT_RETURN_IF_ERROR(TryThreads(config.ThreadsNeeded()));
  RaiseDescriptorLimit();
  KVT_RETURN_IF_ERROR(LockSocketDir(config.socket_dir, "kvtier.lock", "agent"));
  KVT_ASSIGN_OR_RETURN(TenantTable tenants, ReadTenants(config.tenants_dir));
  KVT_ASSIGN_OR_RETURN(TenantSettingsMap tenant_settings, ReadTenantSettings(config));
  KVT_ASSIGN_OR_RETURN(const NodeId node, NodeId::FromString(config.node_id));
  StartProgress progress;
  std::optional<EndsWhileStarting> ends(std::in_place, signals, &progress);
  // They answer from now on, because all that follows may take minutes.
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<StartingDoors> starting,
                       StartingDoors::Open(config, &progress));

  ThreadExecutor executor("decisions");
  BytePool byte_threads(&executor, "bytes", config.byte_threads);
  progress.Begin("opens the disks");
  KVT_ASSIGN_OR_RETURN(const std::vector<NamedDisk> disks, OpenNamedDisks(&executor, config));
  std::vector<DiskSeam> disk_seams;
  for (const NamedDisk& disk : disks) {
    if (!disk.opened.ok()) continue;
    disk_seams.push_back({.id = disk.opened->id,
                          .disk = disk.opened->disk.get(),
                          .manifest = disk.opened->manifest.get(),
                          .keys = disk.opened->keys.get()});
  }
  std::vector<std::unique_ptr<Device>> devices;
  std::unique_ptr<ThreadExecutor> lanes;  // A thread of their own: a driver's call may be slow.
  if (config.gpu_bytes > 0) {
    progress.Begin("opens the GPUs");
    KVT_ASSIGN_OR_RETURN(devices, OpenDevices(config.device, &executor));
    lanes = std::make_unique<ThreadExecutor>("gpu-copies", TimerSlack::kLeast);
  }
  SystemMemoryBinder binder;
  std::vector<Device*> device_seams;
  device_seams.reserve(devices.size());
  for (const auto& device : devices) device_seams.push_back(device.get());
  GrpcPeerTransport transport(&executor, node);
  std::unique_ptr<GrpcCoordinatorLink> coordinator;
  if (!config.coordinator.empty()) {
    coordinator = std::make_unique<GrpcCoordinatorLink>(&executor, config.coordinator, kBuild);
  }

  BytePool memory_threads(&executor, "host-memory", kHostMemoryThreads);
  // Lessons and tenants' files have a thread each, because either may lie on a drive that hangs.
  BytePool lessons_thread(&executor, "lessons", 1);
  LessonsFile lessons(&lessons_thread, config.LessonsDir());
  BytePool tenants_thread(&executor, "tenants", 1);
  TenantFiles tenant_files(&tenants_thread,
                           {.settings = config.SettingsDir(), .secrets = config.tenants_dir});

  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<Agent> agent,
      Agent::Create({.node = node,
                     .epoch = DrawEpoch(),
                     .address = config.advertise,
                     .locate_grace = config.locate_grace,
                     .tenants = std::move(tenants),
                     .tenant_settings = std::move(tenant_settings),
                     .host_bytes = config.host_bytes,
                     .host_max_bytes = config.MeantHostMaxBytes(),
                     .slab_bytes = config.slab_bytes,
                     .host_fill_threads = AgentConfig::HostFillThreads(),
                     .host_memory = config.MeantHostMemory(),
                     .staging_bytes =
                         config.worker_memory == WorkerMemory::kStaged ? config.staging_bytes : 0,
                     .eviction = config.eviction,
                     .attention_bytes = config.attention_bytes,
                     .disk_writes = config.disk_writes,
                     .scrub_bytes_per_second = config.scrub_bytes_per_second,
                     .host_scrub_bytes_per_second = config.host_scrub_bytes_per_second,
                     .gpu_bytes = config.gpu_bytes,
                     .gpu_max_bytes = config.gpu_max_bytes,
                     .gpu_block_bytes = config.gpu_block_bytes,
                     .gpu_tenants = config.gpu_tenants},
                    {.executor = &executor,
                     .byte_threads = &byte_threads,
                     .memory = &memory_threads,
                     .disks = std::move(disk_seams),
                     .devices = std::move(device_seams),
                     .lanes = lanes.get(),
                     .binder = &binder,
                     .transport = &transport,
                     .coordinator = coordinator.get(),
                     .lessons = &lessons,
                     .tenants = &tenant_files,
                     .free_memory = FreeMemory,
                     .progress = &progress}));
  progress.Begin("recovers the disks");
  const absl::Time started = executor.Now();
  const absl::StatusOr<DiskSet::Recovery> recovery =
      AwaitOn(&executor, agent->scope(), agent->Start());
  ends.reset();  // From now on a signal stops the agent in the order below.
  absl::Status served = recovery.status();
  if (recovery.ok()) {
    LogRecovery(disks, *recovery, executor.Now() - started);
    served = ServeUntilSignal(config,
                              {.agent = agent.get(),
                               .transport = &transport,
                               .disks = &disks,
                               .devices = &devices,
                               .starting = std::move(starting)},
                              signals);
  }
  // The order is the same whatever happened: the flows end, then the thread that runs them, and
  // only then the objects that they use are destroyed.
  TaskScope stopping(&executor);
  if (!AwaitOn(&executor, &stopping, agent->Stop(executor.Now() + kStopTimeout))) {
    // An I/O hangs in the kernel or in a driver. It is safe to exit, because the disk tier survives
    // crashes.
    Log(LogLevel::kError,
        "the agent ends with I/O still in flight: a disk or GPU driver does not answer");
    _exit(1);
  }
  executor.Stop();
  if (lanes != nullptr) lanes->Stop();
  return served;
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  kvtier::TurnOffLockChecks();
  kvtier::SayWhyNoThreadStarts("kvtier-agent");
  kvtier::KeepFreedMemory();
  const sigset_t signals = kvtier::TakeProgramSignals();
  if (const auto end = kvtier::ParseProgramFlags(kvtier::AgentText(), argc, argv)) return *end;
  const absl::StatusOr<kvtier::AgentConfig> config = kvtier::ConfigFromFlags();
  const absl::Status status = config.ok() ? kvtier::Run(*config, signals) : config.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "kvtier-agent: %s\n", std::string(status.message()).c_str());
  return 1;
}
