// Agent is one node's kvtier: the tiers, the index over them, and the flows that
// move blocks, wired together. Everything it decides runs on one executor; all I/O
// is behind the seams it is given, so the simulator runs this very class.
//
// Executor thread only.
#ifndef KVTIER_AGENT_AGENT_H_
#define KVTIER_AGENT_AGENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_admission.h"
#include "agent/disk/disk_load.h"
#include "agent/disk/disk_promises.h"
#include "agent/disk/offload.h"
#include "agent/flows/delete_blocks.h"
#include "agent/flows/erase_tenant.h"
#include "agent/flows/fetch.h"
#include "agent/flows/host_scrub.h"
#include "agent/flows/match.h"
#include "agent/flows/onboard.h"
#include "agent/flows/put.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/gpu/gpu_load.h"
#include "agent/gpu/gpu_offload.h"
#include "agent/gpu/gpu_resize.h"
#include "agent/gpu/gpu_workers.h"
#include "agent/gpu/slot_grants.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/host_prover.h"
#include "agent/index/load_table.h"
#include "agent/index/residency.h"
#include "agent/limits.h"
#include "agent/peers/coordinator_link.h"
#include "agent/peers/coordinator_reporter.h"
#include "agent/peers/peer_transport.h"
#include "agent/peers/serve_peer.h"
#include "agent/sessions/leases.h"
#include "agent/sessions/reservations.h"
#include "agent/sessions/sessions.h"
#include "agent/sessions/staging.h"
#include "agent/sessions/tenants.h"
#include "agent/sessions/tickets.h"
#include "core/byte_workers.h"
#include "core/executor.h"
#include "core/node.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"
#include "tier_disk/manifest/manifest.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class Agent {
 public:
  struct Options {
    NodeId node;
    Epoch epoch;                                 // Drawn at start.
    std::string address;                         // Of the peer service, as other nodes reach it.
    absl::Duration locate_grace = kLocateGrace;  // Shortest wait for a coordinator's answer.
    TenantTable tenants;
    uint64_t host_bytes = 0;  // Of all arenas; each tenant's domain gets an equal part.
    uint64_t slab_bytes = uint64_t{64} << 20;
    uint64_t staging_bytes = 0;  // Of each session's region; 0: workers write the arena.
    DiskWriteOptions disk_writes;
    uint64_t scrub_bytes_per_second = 0;       // Of each disk; 0: only when asked.
    uint64_t host_scrub_bytes_per_second = 0;  // Of host memory; 0: it is not scrubbed.
    uint64_t gpu_bytes = 0;                    // 0: no GPU pool.
    uint64_t gpu_max_bytes = 0;    // That it may grow to; less than gpu_bytes: gpu_bytes.
    uint64_t gpu_block_bytes = 0;  // Of the blocks that the pool is for.
    // Whose pool it is, for who maps it sees all of it; empty: the first tenant's.
    std::string gpu_tenant;
  };
  // Not owned. What is null is not there: the node then runs without that part.
  struct DiskSeam {
    DiskId id;  // No two the same.
    Disk* disk = nullptr;
    Manifest* manifest = nullptr;
    TenantKeys* keys = nullptr;  // Null: its payloads lie in the clear.
  };
  struct Seams {
    Executor* executor = nullptr;
    ByteWorkers* workers = nullptr;
    std::vector<DiskSeam> disks;  // Empty: no disk tier.
    Device* device = nullptr;
    // Whose thread calls the device; null: `executor`.
    Executor* lanes = nullptr;
    PeerTransport* transport = nullptr;
    CoordinatorLink* coordinator = nullptr;
  };

  // Errors: kInvalidArgument, kResourceExhausted: the tiers' own; kInvalidArgument also when
  // gpu_tenant is none of the tenants.
  static absl::StatusOr<std::unique_ptr<Agent>> Create(Options options, const Seams& seams);
  ~Agent();

  // Recovers the disks and starts the loops; before it nothing hits. Of several disks one
  // that takes over kDiskOpenTimeout joins later and one that fails stays out. Errors: the
  // first disk's, if none opened.
  Task<absl::StatusOr<DiskSet::Recovery>> Start();
  // Whoever waits goes on soon, with what it would be answered at its deadline, and nothing is
  // to be begun any more. What is in flight goes on. Once is enough.
  void EndWaits();
  bool stopping() const { return waits_.ended(); }
  // EndWaits(), ends the loops and waits for what is in flight; false: something still ran at
  // `deadline`.
  Task<bool> Stop(absl::Time deadline);

  // Errors: kResourceExhausted, at kMaxSessions; those that are closed and may still write
  // count.
  absl::StatusOr<SessionId> OpenSession(const Tenant& tenant, const SessionToken& token);
  // The session's page of steps, by which it works on the GPU pool. Errors: kNotFound, the
  // node has no pool for it, or it is closed; GpuWorkers::Attach()'s.
  absl::StatusOr<const SignalPage*> AttachToGpu(SessionId id);
  // Everything the session holds is free when this returns, but GPU slots that its steps
  // may still use: until these have ended, or ProcessGone(); and slots that it reserved and
  // did not commit, or was granted: until WritesOver() and the end of its steps, or
  // ProcessGone(). True: there are such. Unknown ids are ignored.
  bool CloseSession(SessionId id);
  // After CloseSession(): nothing of its process writes what it had reserved or was granted,
  // but steps that have not ended. Unknown ids are ignored.
  void WritesOver(SessionId id);
  // After CloseSession(): its process is gone. Unknown ids are ignored.
  void ProcessGone(SessionId id);

  const Options& options() const { return options_; }
  Executor* executor() const { return seams_.executor; }
  TaskScope* scope() { return &scope_; }
  SessionTable& sessions() { return sessions_; }
  LeaseTable& leases() { return leases_; }
  Staging& staging() { return staging_; }
  ReservationTable& reservations() { return reservations_; }
  const Residency& residency() const { return residency_; }
  BlockIndex& index() { return index_; }
  Evictor& evictor() { return evictor_; }
  Matcher& matcher() { return matcher_; }
  const Fetcher& fetcher() const { return fetcher_; }
  SlotGrants* slot_grants() const { return slot_grants_.get(); }  // As gpu().
  HostProver& host_prover() { return host_prover_; }
  const HostScrub& host_scrub() const { return host_scrub_; }
  Onboarder& onboarder() { return *onboarder_; }
  Putter& putter() { return *putter_; }
  Tickets& tickets() { return *tickets_; }
  PeerServer& peer_server() { return *peer_server_; }
  BlockDeleter& block_deleter() { return *block_deleter_; }
  TenantEraser& tenant_eraser() { return *tenant_eraser_; }
  const HostTier& host() const { return *host_; }
  const AgentStats& stats() const { return stats_; }
  DiskSet* disks() const { return disks_.get(); }                  // nullptr: none.
  const DiskSet::Recovery& recovery() const { return recovery_; }  // What Start() found.
  const GpuPool* gpu() const { return gpu_.get(); }                // nullptr: none.
  // The pool, for those of the domain that it belongs to; nullptr for all others.
  const GpuPool* gpu_of(DomainId domain) const {
    return domain == gpu_domain_ ? gpu_.get() : nullptr;
  }
  DomainId gpu_domain() const { return gpu_domain_; }  // Whose the pool is, if there is one.
  const GpuWorkers* gpu_workers() const { return gpu_workers_.get(); }     // As gpu().
  const GpuCopies* gpu_copies() const { return gpu_copies_.get(); }        // As gpu().
  GpuResizer* gpu_resizer() const { return gpu_resizer_.get(); }           // As gpu().
  Offloader* offloader() const { return offloader_.get(); }                // nullptr: no disk.
  const DiskPromises* disk_promises() const { return promises_.get(); }    // nullptr: no disk.
  DiskAdmission* disk_admission() const { return disk_admission_.get(); }  // nullptr: no disk.
  const CoordinatorReporter* reporter() const { return reporter_.get(); }  // nullptr: alone.
  // Capacity, use and blocks of each tier that this node has.
  std::vector<TierUsage> Usage() const;
  // BlockIndex::copies() of a moment ago. Any thread.
  size_t block_count() const { return block_count_.load(std::memory_order_relaxed); }
  // Aborts when an invariant of any part does not hold.
  void Audit() const;

 private:
  // Of the GPU tier, as far as the node has it.
  struct Gpu {
    DomainId domain{};
    std::unique_ptr<LaneRunner> runner;
    std::unique_ptr<GpuPool> pool;
  };
  static absl::StatusOr<Gpu> CreateGpu(const Options& options, const Seams& seams,
                                       const HostTier& host);
  Agent(Options options, const Seams& seams, std::unique_ptr<HostTier> host, Gpu gpu);
  // So that the disks move blocks to and from their slots without pinning them each time.
  void RegisterArenas();
  void MakeDisks();
  // Tells index and workers of what the disks had when they were opened.
  void PublishRecovered();
  // One of several disks. Each part is destroyed before what it uses.
  struct NodeDisk {
    std::unique_ptr<WatchedDisk> watched;
    std::unique_ptr<DiskTier> tier;
  };
  Task<void> SweepDeadlines();

  const Options options_;
  const Seams seams_;
  const DomainId gpu_domain_;
  AgentStats stats_;
  DiskSet::Recovery recovery_;
  // From here on, each part is destroyed before what it uses; the running flows
  // (scope_) first of all.
  std::unique_ptr<HostTier> host_;
  std::unique_ptr<LaneRunner> lane_runner_;
  std::unique_ptr<GpuPool> gpu_;
  std::unique_ptr<CoordinatorReporter> reporter_;
  Residency residency_;
  BlockIndex index_;
  std::vector<NodeDisk> node_disks_;
  std::unique_ptr<DiskSet> disks_;
  std::unique_ptr<DiskAdmission> disk_admission_;
  std::unique_ptr<DiskPromises> promises_;
  SessionTable sessions_;
  std::unique_ptr<GpuWorkers> gpu_workers_;
  LeaseTable leases_;
  Staging staging_;
  ReservationTable reservations_;
  absl::flat_hash_set<SessionId> leaving_;  // Closed, with slots that they may still write.
  Evictor evictor_;
  LoadTable host_loads_;
  LoadTable gpu_loads_;
  std::unique_ptr<DiskLoader> disk_loader_;
  std::unique_ptr<SlotGrants> slot_grants_;
  std::unique_ptr<GpuCopies> gpu_copies_;
  std::unique_ptr<GpuOffloader> gpu_offloader_;
  std::unique_ptr<GpuLoader> gpu_loader_;
  std::unique_ptr<GpuResizer> gpu_resizer_;
  Fetcher fetcher_;
  Matcher matcher_;
  HostProver host_prover_;
  HostScrub host_scrub_;
  std::unique_ptr<Offloader> offloader_;
  std::unique_ptr<Onboarder> onboarder_;
  std::unique_ptr<Tickets> tickets_;
  std::unique_ptr<Putter> putter_;
  std::unique_ptr<PeerServer> peer_server_;
  std::unique_ptr<TenantEraser> tenant_eraser_;
  std::unique_ptr<BlockDeleter> block_deleter_;
  Waits waits_;
  std::atomic<size_t> block_count_{0};  // A figure only, so relaxed.
  TaskScope scope_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_AGENT_H_
