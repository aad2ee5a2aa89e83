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
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/agent.h"
#include "agent/agent_config.h"
#include "agent/agent_flags_config.h"
#include "agent/disk/node_disks.h"
#include "agent/gpu/reclaim_pool.h"
#include "agent/peers/grpc_coordinator_link.h"
#include "agent/peers/grpc_peer_transport.h"
#include "agent/services/admin_service.h"
#include "agent/services/doors.h"
#include "agent/sessions/descriptor_socket.h"
#include "core/call_on_executor.h"
#include "core/check.h"
#include "core/listening_socket.h"
#include "core/lock_checks.h"
#include "core/log.h"
#include "core/memory_watch.h"
#include "core/process_id.h"
#include "core/status_macros.h"
#include "core/thread_executor.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-agent 0.1.0";
// Calls under way get this long; then their connections are cut. Not longer: gRPC waits
// for idle clients too, and one that does nothing looks at its socket every 5 s.
constexpr absl::Duration kDrainTimeout = absl::Seconds(1);
// And the flows that they started this long: I/O in the kernel cannot be called back.
constexpr absl::Duration kStopTimeout = absl::Seconds(10);
// A session takes five descriptors (its socket, its gRPC connection, which its door watches,
// too, its process and its lifeline): the usual soft limit of 1024 is too low for kMaxSessions.
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

// What both sides of the signal page mean by its words.
static_assert(wire::kSignalPageBytes == kSignalPageBytes);
static_assert(wire::kSignalStride * kSignalWords == kSignalPageBytes);
static_assert(wire::kBegunWord == static_cast<size_t>(StepWord::kBegun));
static_assert(wire::kRetiredWord == static_cast<size_t>(StepWord::kRetired));
static_assert(wire::kIncarnationWord == static_cast<size_t>(StepWord::kIncarnation));
static_assert(wire::kOverWord == static_cast<size_t>(StepWord::kOver));
static_assert(wire::kUnusedBytesWord == static_cast<size_t>(StepWord::kUnusedBytes));
static_assert(wire::kMaxHandles == kMaxRegionHandles);

// On the executor. The descriptor is a duplicate: the pool may lose the handle before the
// answer is sent.
absl::StatusOr<DescriptorSocket::Shared> ShareGpuPool(Agent* agent,
                                                      const DescriptorSocket::Wish& wish) {
  const GpuPool* const pool = agent->gpu_of(wish.domain);
  if (pool == nullptr) return absl::NotFoundError("this node has no GPU pool for this tenant");
  const std::vector<PoolHandle>& handles = pool->handles();
  if (wish.index >= handles.size()) {
    return absl::NotFoundError(
        absl::StrCat("index: ", wish.index, "; the pool has ", handles.size(), " handles"));
  }
  const int fd = fcntl(handles[wish.index].descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("GPU pool: ", strerror(errno)));
  return DescriptorSocket::Shared{.fd = fd,
                                  .bytes = pool->handle_bytes(),
                                  .handles = static_cast<uint32_t>(handles.size()),
                                  .max_handles = static_cast<uint32_t>(pool->max_handles()),
                                  .version = pool->version(),
                                  .since = handles[wish.index].since,
                                  .duplicated = true};
}

// On the executor; a duplicate as above: a larger table may take this one's place.
absl::StatusOr<DescriptorSocket::Shared> ShareResidency(Agent* agent, DomainId domain) {
  const ResidencyTable* const table = agent->residency().table(domain);
  if (table == nullptr) return absl::NotFoundError("this node has no residency table");
  const int fd = fcntl(table->memory().read_only_fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("residency table: ", strerror(errno)));
  }
  return DescriptorSocket::Shared{
      .fd = fd, .bytes = table->memory().bytes().size(), .duplicated = true};
}

// On the executor; a duplicate as above: the session may end before the answer is sent.
absl::StatusOr<DescriptorSocket::Shared> ShareStaging(Agent* agent,
                                                      const DescriptorSocket::Wish& wish) {
  if (!agent->sessions().IsOpen(wish.session)) {
    return absl::NotFoundError("the session is closed");
  }
  const absl::StatusOr<const SealedMemory*> region =
      agent->staging().RegionOf(wish.session, wish.domain);
  if (!region.ok()) return region.status();
  const int fd = fcntl((*region)->read_write_fd(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("staging: ", strerror(errno)));
  return DescriptorSocket::Shared{.fd = fd, .bytes = (*region)->bytes().size(), .duplicated = true};
}

absl::StatusOr<DescriptorSocket::Shared> Share(Agent* agent, const DescriptorSocket::Wish& wish) {
  const Arena& arena = agent->host().arena(wish.domain);
  switch (wish.kind) {
    case wire::DescriptorKind::kArenaRead:
      return DescriptorSocket::Shared{.fd = arena.read_only_fd(), .bytes = arena.bytes().size()};
    case wire::DescriptorKind::kArenaWrite:
      if (agent->staging().enabled()) return absl::NotFoundError("workers of this node stage");
      return DescriptorSocket::Shared{.fd = arena.read_write_fd(), .bytes = arena.bytes().size()};
    case wire::DescriptorKind::kGpuPool:
      return CallOn(agent->executor(), [&] { return ShareGpuPool(agent, wish); });
    case wire::DescriptorKind::kResidency:
      return CallOn(agent->executor(), [&] { return ShareResidency(agent, wish.domain); });
    case wire::DescriptorKind::kStaging:
      return CallOn(agent->executor(), [&] { return ShareStaging(agent, wish); });
    case wire::DescriptorKind::kLifeline:
      return absl::NotFoundError("lifeline: it is the descriptor socket's own");
    case wire::DescriptorKind::kSignalPage:
      break;
  }
  const ProcessId process = FindProcess(wish.pid).value_or(ProcessId());
  KVT_ASSIGN_OR_RETURN(const SignalPage* page, CallOn(agent->executor(), [&] {
                         return agent->AttachToGpu(wish.session, process);
                       }));
  return DescriptorSocket::Shared{.fd = page->descriptor(), .bytes = kSignalPageBytes};
}

DescriptorSocket::Calls SessionCalls(Agent* agent) {
  Executor* const executor = agent->executor();
  return {.open =
              [agent, executor](const Tenant& tenant, const SessionToken& token) {
                return CallOn(executor, [&] { return agent->OpenSession(tenant, token); });
              },
          .close =
              [agent, executor](SessionId id) {
                return CallOn(executor, [&] { return agent->CloseSession(id); });
              },
          .over = [agent, executor](
                      SessionId id) { executor->Post([agent, id] { agent->WritesOver(id); }); },
          .gone = [agent, executor](
                      SessionId id) { executor->Post([agent, id] { agent->ProcessGone(id); }); },
          .share = [agent](const DescriptorSocket::Wish& wish) { return Share(agent, wish); }};
}

PoolSocket::Calls PoolCalls(Agent* agent) {
  Executor* const executor = agent->executor();
  return {.offered =
              [agent, executor](OfferedPage page) {
                executor->Post([agent, page = std::move(page)] { agent->PageOffered(page); });
              },
          .gone =
              [agent, executor](size_t place) {
                executor->Post([agent, place] { agent->EarlierWorkerGone(place); });
              }};
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
  PoolLedger* ledger = nullptr;    // Of the GPU pool; null: none.
};

// Answers workers, peers and operators until a signal; nobody is answered any more when
// it returns. Errors: kUnavailable, something cannot be listened on.
absl::Status ServeUntilSignal(const AgentConfig& config, const ServedParts& parts,
                              const sigset_t& signals) {
  AdminService::About about{.build = kBuild,
                            .coordinator = config.coordinator,
                            .disk_io = parts.disks->empty() ? "none" : "io_uring",
                            .device = parts.device == nullptr ? "none" : parts.device->name(),
                            .worker_uids = config.allow_uids};
  for (const NodeDisk& disk : *parts.disks) {
    AdminService::AboutDisk& told = about.disks.emplace_back();
    told.directory = disk.directory;
    told.error = disk.opened.status();
    if (!disk.opened.ok()) continue;
    told.io = disk.io_name();
    told.encrypted = disk.opened->keys != nullptr;
    if (disk.opened->io != DiskIoKind::kUring) about.disk_io = "pread";
  }
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Doors> doors,
                       Doors::Open(config, parts.agent, std::move(about)));
  KVT_ASSIGN_OR_RETURN(std::unique_ptr<DescriptorSocket> sessions,
                       DescriptorSocket::Listen({.path = absl::StrCat(config.socket_dir, "/",
                                                                      wire::kDescriptorSocketName),
                                                 .allowed_uids = config.allow_uids,
                                                 .tenants = &parts.agent->options().tenants},
                                                SessionCalls(parts.agent)));
  Log(LogLevel::kInfo, absl::StrCat("node ", config.node_id, ": workers and operators at ",
                                    config.socket_dir, ", peers at ", config.listen));

  WaitForStopSignal(signals);
  // From now on sessions end and their slots get free, while workers may still use them.
  if (parts.ledger != nullptr) parts.ledger->Discard();
  const absl::Time stop_by = absl::Now() + kDrainTimeout;
  // First: gRPC waits for the end of every call, also of those that it has cut off.
  CallOn(parts.agent->executor(), [&] {
    parts.agent->EndWaits();
    parts.transport->CancelAll();
    return true;
  });
  sessions.reset();
  doors->Shutdown(stop_by);
  return absl::OkStatus();
}

absl::Status Run(const AgentConfig& config, const sigset_t& signals) {
  RaiseDescriptorLimit();
  KVT_RETURN_IF_ERROR(LockSocketDir(config.socket_dir, "kvtier.lock", "agent"));
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
  std::unique_ptr<ThreadExecutor> lanes;  // A driver may take its time.
  PoolReclaim reclaimed;
  if (config.gpu_bytes > 0) {
    KVT_ASSIGN_OR_RETURN(
        device, OpenDevice(config.device, &executor, {.batched_calls = config.gpu_batched_copies}));
    reclaimed = ReclaimPool(config, tenants, device.get());
    lanes = std::make_unique<ThreadExecutor>("gpu-copies", TimerSlack::kLeast);
  }
  GrpcPeerTransport transport(&executor, node);
  std::unique_ptr<GrpcCoordinatorLink> coordinator;
  if (!config.coordinator.empty()) {
    coordinator = std::make_unique<GrpcCoordinatorLink>(&executor, config.coordinator, kBuild);
  }

  KVT_ASSIGN_OR_RETURN(
      const std::unique_ptr<Agent> agent,
      Agent::Create({.node = node,
                     .epoch = DrawEpoch(),
                     .address = config.advertise,
                     .locate_grace = config.locate_grace,
                     .tenants = std::move(tenants),
                     .host_bytes = config.host_bytes,
                     .slab_bytes = config.slab_bytes,
                     .staging_bytes =
                         config.worker_memory == WorkerMemory::kStaged ? config.staging_bytes : 0,
                     .disk_writes = config.disk_writes,
                     .scrub_bytes_per_second = config.scrub_bytes_per_second,
                     .host_scrub_bytes_per_second = config.host_scrub_bytes_per_second,
                     .gpu_bytes = config.gpu_bytes,
                     .gpu_max_bytes = config.gpu_max_bytes,
                     .gpu_block_bytes = config.gpu_block_bytes,
                     .gpu_tenant = config.gpu_tenant},
                    {.executor = &executor,
                     .workers = &workers,
                     .disks = std::move(disk_seams),
                     .device = device.get(),
                     .ledger = reclaimed.ledger.get(),
                     .lanes = lanes.get(),
                     .transport = &transport,
                     .coordinator = coordinator.get()},
                    std::move(reclaimed.taken)));
  if (reclaimed.socket != nullptr) reclaimed.socket->Serve(PoolCalls(agent.get()));
  const absl::Time started = executor.Now();
  const absl::StatusOr<DiskSet::Recovery> recovery =
      AwaitOn(&executor, agent->scope(), agent->Start());
  absl::Status served = recovery.status();
  if (recovery.ok()) {
    LogRecovery(disks, *recovery, executor.Now() - started);
    served = ServeUntilSignal(config,
                              {.agent = agent.get(),
                               .transport = &transport,
                               .disks = &disks,
                               .device = device.get(),
                               .ledger = reclaimed.ledger.get()},
                              signals);
  }
  reclaimed.socket.reset();
  // In this order whatever happened: the flows end, then the thread they run on, and
  // only then is anything they use destroyed.
  TaskScope stopping(&executor);
  if (!AwaitOn(&executor, &stopping, agent->Stop(executor.Now() + kStopTimeout))) {
    // Something hangs in the kernel or a driver; the disk tier is crash-safe.
    Log(LogLevel::kError, "stopped with I/O in flight");
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
  kvtier::KeepFreedMemory();
  // Before any thread starts, so that all inherit it and only sigwait() sees these.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  absl::FlagsUsageConfig usage;
  usage.contains_help_flags = [](absl::string_view file) {
    return absl::string_view(file).find("agent_flags_config") != absl::string_view::npos;
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
