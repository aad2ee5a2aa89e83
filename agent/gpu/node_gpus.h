// NodeGpus are the pools on the GPUs of the node, one GpuTier for each GPU and tenant that has
// pools, and which of them each session works on. A node without a GPU has an empty one.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_NODE_GPUS_H_
#define KVTIER_AGENT_GPU_NODE_GPUS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "agent/block_run.h"
#include "agent/gpu/gpu_tier.h"
#include "core/block_key.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/worker_hold.h"
#include "tier_host/host_tier.h"
#include "tier_host/memory_binder.h"

namespace kvtier {

class NodeGpus {
 public:
  // Sources of the pools' memory; not owned.
  struct Source {
    std::vector<Device*> devices;   // Devices, each of which gets a pool for each of the tenants.
    std::vector<DomainId> tenants;  // Tenants that have pools; at least one.
    Executor* executor = nullptr;
    Executor* lanes = nullptr;  // Executor that calls the devices.
    HostTier* host = nullptr;
    // Binder of host memory; null: memory stays where the kernel puts it.
    MemoryBinder* binder = nullptr;
  };
  // Takes the pools of each device: `options.bytes` of it, in equal parts where there are several
  // tenants. Host memory of the tenants is placed on the NUMA nodes of the devices. Errors: the
  // devices', FirstGpuParts()'.
  static absl::StatusOr<std::vector<GpuTier::Memory>> TakeMemory(const Source& source,
                                                                 const GpuTier::Options& options);
  NodeGpus(std::vector<GpuTier::Memory> memory, const GpuTier::Node& node);

  size_t size() const { return tiers_.size(); }
  bool empty() const { return tiers_.empty(); }
  // Returns a pool: those of the first GPU come first, and on each GPU they are in the order of
  // tenants().
  GpuTier& at(size_t i) const { return *tiers_.at(i); }
  // Returns the tenants that have pools. Each of them has one on every GPU.
  const std::vector<DomainId>& tenants() const { return tenants_; }
  // Returns the GPU that the session works on: the one that it chose, else the first whose pool is
  // its domain's; nullptr: there is none.
  GpuTier* Of(SessionId session, DomainId domain) const;
  // Returns the GPU that the run's session works on; nullptr also if that GPU's pool is for other
  // blocks.
  GpuTier* For(const BlockRun& run) const;
  // Returns the GPU with a copy of the block. REQUIRES: one has it.
  GpuTier* With(const BlockKey& key) const;
  // Returns the GPU that an operator names by its UUID; empty: the only one. Errors: kNotFound,
  // there is no such GPU; kFailedPrecondition, the node has none, or several tenants have pools
  // there, whose sizes follow from their shares; kInvalidArgument, there are several and none is
  // named.
  absl::StatusOr<GpuTier*> Named(const std::string& uuid) const;
  // Makes the session work on that GPU. Errors: kNotFound, no GPU with this UUID has a pool
  // for the domain; kFailedPrecondition, the session works on another one.
  absl::Status Choose(SessionId session, DomainId domain, const DeviceUuid& uuid);

  // Drops the block from every pool where nobody holds it.
  void Drop(const BlockKey& key);
  // Drop the blocks that nobody holds from the domain's pools, until there are none, or from all
  // pools, no more than there are now: kEvictedPerTurn in each turn of the executor. Return how
  // many.
  Task<uint64_t> EvictDomain(DomainId domain);
  Task<uint64_t> EvictAll();
  // Counts the domain's blocks that only its pools have. O(blocks there).
  size_t BlocksNotInHost(DomainId domain) const;

  // CheckStep() and AwaitStep() call GpuTier's functions of the same name, on the GPU that has the
  // session's signal page. Errors also: kInvalidArgument, naming the step, if no GPU has the page.
  absl::Status CheckStep(SessionId session, uint64_t step) const;
  Task<bool> AwaitStep(SessionId session, uint64_t step, absl::Time deadline) const;
  // Returns the steps that the session's worker has begun; none where it has no signal page.
  BegunSteps StepsOf(SessionId session);
  // Close() and the functions after it call GpuTier's functions of the same name, on the GPU that
  // the session works on.
  size_t Close(SessionId session);
  void WritesOver(SessionId session);
  void ProcessGone(SessionId session);

  // Reads in workers' signal pages which steps began and ended.
  void ObserveSteps();
  // Makes room ahead of need: leases may have ended, or slots were granted.
  void Pump();
  void EndWaits();
  // Ends the copies that make room ahead of need.
  void Stop();
  uint64_t capacity_bytes() const;
  uint64_t used_bytes() const;
  // Return the capacity and the used bytes of the tenant's pools.
  uint64_t CapacityOf(DomainId domain) const;
  uint64_t UsedBy(DomainId domain) const;
  uint64_t pinned_bytes() const;
  void Audit() const;

 private:
  // Returns the GPU that has the session's signal page; nullptr: none has.
  GpuTier* WithSteps(SessionId session) const;
  Task<uint64_t> EvictPool(GpuTier* tier, uint64_t limit);
  // Returns the UUIDs of all GPUs, for an error.
  std::string UuidsText() const;

  Executor* const executor_;  // Not owned.
  std::vector<std::unique_ptr<GpuTier>> tiers_;
  std::vector<DomainId> tenants_;
  absl::flat_hash_map<SessionId, GpuTier*> chosen_;  // Sessions that named a GPU.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_NODE_GPUS_H_
