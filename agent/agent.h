// Agent is one node's kvtier: its rooms, wired together, and the loop that looks at deadlines.
// Everything it decides runs on one executor; all I/O is behind the seams it is given, so the
// simulator runs this very class.
//
//   index      what this node has in host memory, and the followers of its changes
//   disks      its disks, and what is written to them
//   gpus       its GPUs' pools
//   sessions   its workers, with their leases and reservations
//   flows      put, onboard, fetch and the others, one a file
//   tenants    which tenants the node has, and their settings
//
// Executor thread only.
#ifndef KVTIER_AGENT_AGENT_H_
#define KVTIER_AGENT_AGENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/disk/node_disks.h"
#include "agent/flows/host_resize.h"
#include "agent/flows/memory_mover.h"
#include "agent/flows/node_flows.h"
#include "agent/flows/node_tenants.h"
#include "agent/flows/tenant_store.h"
#include "agent/gpu/gpu_divider.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/lessons_store.h"
#include "agent/index/residency.h"
#include "agent/index/stored_lessons.h"
#include "agent/limits.h"
#include "agent/peers/coordinator_link.h"
#include "agent/peers/coordinator_reporter.h"
#include "agent/peers/peer_transport.h"
#include "agent/sessions/fair_turns.h"
#include "agent/sessions/worker_sessions.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/eviction_policy.h"
#include "core/executor.h"
#include "core/node.h"
#include "core/start_progress.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tenant_settings.h"
#include "core/waits.h"
#include "tier_gpu/device/device.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class Agent {
 public:
  struct Options {
    NodeId node;
    Epoch epoch;          // Drawn at start.
    std::string address;  // Address of the peer service, as other nodes reach it.
    absl::Duration locate_grace = kLocateGrace;  // Shortest wait for a coordinator's answer.
    TenantTable tenants;                         // Tenants at the start.
    TenantSettingsMap tenant_settings{};  // Settings in the file that the agent is started with.
    uint64_t host_bytes = 0;              // Host memory of all tenants, at first.
    // Largest host memory of all tenants, where host memory moves; less than host_bytes:
    // host_bytes.
    uint64_t host_max_bytes = 0;
    uint64_t slab_bytes = uint64_t{64} << 20;
    size_t host_fill_threads = 1;  // Number of threads that take host memory at the start.
    // Whether host memory moves to the tenants that need it. It does not move where workers stage,
    // because that memory is sealed, nor for the tenants of GPU pools, because theirs is pinned.
    HostMemory host_memory = HostMemory::kFixed;
    uint64_t staging_bytes = 0;  // Size of each session's region; 0: workers write the arena.
    EvictionPolicies eviction;
    uint64_t attention_bytes = 0;  // As in AgentConfig.
    DiskWriteOptions disk_writes;
    uint64_t scrub_bytes_per_second = 0;       // Rate of each disk; 0: only when asked.
    uint64_t host_scrub_bytes_per_second = 0;  // Rate of host memory; 0: it is not scrubbed.
    uint64_t gpu_bytes = 0;                    // Memory of each GPU's pools; 0: no pool.
    // Largest size of a pool, if one tenant has all pools. A value below gpu_bytes counts as
    // gpu_bytes.
    uint64_t gpu_max_bytes = 0;
    uint64_t gpu_block_bytes = 0;  // Size of the blocks that the pools are for.
    // Tenants that have a pool on each GPU, between which gpu_bytes is divided by their shares. A
    // process that maps a pool can read all of it, so each has its own. Empty: the first tenant by
    // name.
    std::vector<std::string> gpu_tenants;
  };
  // Seams are the parts of the node that the agent uses and does not own. The node runs without a
  // part that is null.
  struct Seams {
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    // Threads that fill and empty host memory; null: `byte_threads`.
    ByteThreads* memory = nullptr;
    std::vector<DiskSeam> disks;  // Empty: no disk tier.
    // Devices, each of which gets a pool of its own if gpu_bytes is not 0.
    std::vector<Device*> devices;
    Executor* lanes = nullptr;  // Executor that calls the devices; null: `executor`.
    MemoryBinder* binder = nullptr;
    PeerTransport* transport = nullptr;
    CoordinatorLink* coordinator = nullptr;
    LessonsStore* lessons = nullptr;  // Store of lessons; null: they end with the agent.
    TenantStore* tenants = nullptr;   // Store of tenants' settings; null: they end with the agent.
    uint64_t (*free_memory)() = nullptr;  // Free bytes of the system: MemoryMover::Parts.
    StartProgress* progress = nullptr;    // Told what Create() does; null: nobody is.
  };

  // Makes an agent that has not started. Errors: kInvalidArgument and kResourceExhausted, the
  // tiers' own; kInvalidArgument also when one of gpu_tenants is none of the tenants, or named
  // twice.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(Options options, const Seams& seams);
  ~Agent();

  // Loads the lessons of the orders of eviction, recovers the disks, loads the tenants' settings
  // and starts the loops. Before that no block is found. Errors: NodeDisks::Open()'s.
  Task<absl::StatusOr<DiskSet::Recovery>> Start();
  // Ends all waits, so that each call is soon answered as if its deadline had come. No call may
  // begin after this. I/O in flight goes on. Idempotent.
  void EndWaits();
  bool stopping() const { return waits_.ended(); }
  // Calls EndWaits(), ends the loops and waits for what is in flight. Returns false when something
  // still ran at `deadline`.
  Task<bool> Stop(absl::Time deadline);
  // Ends the session's onboards in parts, and calls WorkerSessions::Close(). REQUIRES: its worker
  // has hung up, or was hung up on.
  bool CloseSession(SessionId id);
  // Sets the function that hangs up on a session's worker; it is called before the agent ends the
  // session by itself, because its tenant was dropped or is no longer a member of its group.
  void SetHangUp(absl::AnyInvocable<void(SessionId)> hang_up) { hang_up_ = std::move(hang_up); }

  const Options& options() const { return options_; }
  Executor* executor() const { return executor_; }
  TaskScope* scope() { return &scope_; }
  const AgentStats& stats() const { return stats_; }
  const HostTier& host() const { return *host_; }
  const HostShares& host_shares() const { return host_shares_; }
  // Returns whether slabs come to the domain and leave it.
  bool HostMemoryMoves(DomainId domain) const;
  const MemoryMover& mover() const { return mover_; }
  HostResizer& host_resizer() { return host_resizer_; }
  const HostResizer& host_resizer() const { return host_resizer_; }
  const Residency& residency() const { return residency_; }
  BlockIndex& index() { return index_; }
  Evictor& evictor() { return evictor_; }
  NodeDisks& disks() { return disks_; }
  NodeGpus& gpus() { return gpus_; }
  const NodeGpus& gpus() const { return gpus_; }
  const GpuDivider& gpu_divider() const { return gpu_divider_; }
  // Returns null if the agent runs alone.
  const CoordinatorReporter* reporter() const { return reporter_.get(); }
  WorkerSessions& sessions() { return sessions_; }
  FairTurns& turns() { return turns_; }
  NodeFlows& flows() { return flows_; }
  NodeTenants& tenants() { return tenants_; }
  // Returns capacity, use and blocks of each tier that this node has.
  std::vector<TierUsage> Usage() const;
  // Returns BlockIndex::copies() as it was up to kSweepInterval ago. Any thread.
  size_t block_count() const { return block_count_.load(std::memory_order_relaxed); }
  // Aborts when an invariant of any part does not hold.
  void Audit() const;

 private:
  // Memory of the tiers. Create() takes it before it makes the agent, because that may fail.
  struct Memory {
    HostShares shares{0, 1};
    std::unique_ptr<HostTier> host;
    std::vector<GpuTier::Memory> gpus;
  };
  static absl::StatusOr<Memory> TakeMemory(const Options& options, const Seams& seams);
  Agent(Options options, const Seams& seams, Memory memory);
  std::unique_ptr<CoordinatorReporter> MakeReporter(CoordinatorLink* coordinator);
  // Returns the rooms that flows work in.
  NodeRooms Rooms(const Seams& seams);
  static absl::Status TakeHostMemory(const Options& options, StartProgress* progress,
                                     Memory* memory);
  // Names each order of eviction to `lessons_`.
  void NameOrders();
  Task<void> SweepDeadlines();
  // Hangs up on the session's worker and closes the session.
  void EndSession(SessionId id);

  Options options_;  // Options of Create(), except that tenants come and go (NodeTenants).
  Executor* const executor_;
  absl::AnyInvocable<void(SessionId)> hang_up_;  // Null: sessions have no connection.
  AgentStats stats_;
  // Each part is destroyed before the parts that it uses; the running flows (scope_) first of all.
  HostShares host_shares_;
  std::unique_ptr<HostTier> host_;
  BlockChanges changes_;
  Residency residency_;
  NodeDisks disks_;
  BlockIndex index_;
  Evictor evictor_;
  NodeGpus gpus_;
  GpuDivider gpu_divider_;
  StoredLessons lessons_;
  std::unique_ptr<CoordinatorReporter> reporter_;
  WorkerSessions sessions_;
  FairTurns turns_;
  NodeFlows flows_;
  MemoryMover mover_;
  NodeTenants tenants_;
  HostResizer host_resizer_;
  Waits waits_;
  std::atomic<size_t> block_count_{0};  // A figure only, so relaxed.
  TaskScope scope_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_H_
