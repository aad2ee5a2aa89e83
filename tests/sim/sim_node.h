// SimNode is one machine: media that survive, and an agent that runs, dies and
// starts again on them.
#ifndef KVTIER_TESTS_SIM_SIM_NODE_H_
#define KVTIER_TESTS_SIM_SIM_NODE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "core/eviction_policy.h"
#include "tests/sim/coverage.h"
#include "tests/sim/guarantee_checker.h"
#include "tests/sim/oracle.h"
#include "tests/sim/trace.h"
#include "tests/sim/worker_order.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_byte_threads.h"
#include "tests/testing/sim_coordinator_link.h"
#include "tests/testing/sim_disk.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/sim_manifest.h"
#include "tests/testing/sim_network.h"
#include "tests/testing/sim_peer_transport.h"
#include "tests/testing/sim_random.h"

namespace kvtier::sim {

// CallInFlight is a request to a node, until it ends. Break() ends it when the node dies.
class CallInFlight {
 public:
  virtual ~CallInFlight() = default;
  virtual void Break() = 0;
};

class SimNode {
 public:
  // Parts of the world, which the node does not own.
  struct World {
    testing::SimTime* time = nullptr;
    testing::SimNetwork* network = nullptr;
    Trace* trace = nullptr;
    Oracle* oracle = nullptr;
  };
  struct Options {
    size_t number = 0;
    uint64_t host_bytes = 0;
    HostMemory host_memory = HostMemory::kFixed;
    uint64_t staging_bytes = 0;           // For each session; 0: workers write the arena.
    uint64_t gpu_bytes = 0;               // 0: no device.
    size_t gpu_tenant = 0;                // Tenant that owns the pool.
    std::vector<uint32_t> disk_segments;  // Segments of each disk; empty: no disk.
    EvictionPolicies eviction;
    uint64_t seed = 0;
  };
  SimNode(const World& world, const Options& options);
  ~SimNode();

  // Starts the agent; an agent whose disk does not open dies and is started again. REQUIRES: none
  // runs.
  void Boot();
  // Kills the agent as kill -9 does: its memory is gone, and its last writes are torn.
  void Crash();
  // True once the agent has recovered and serves.
  bool serves() const { return serves_; }
  bool running() const { return agent_ != nullptr; }
  // Returns the number of the start, which is another one after each; a session belongs to one.
  uint64_t incarnation() const { return incarnation_; }

  Agent& agent() { return *agent_; }
  // Drops all blocks that nobody holds from host memory in one turn.
  void EvictHost() {
    for (size_t i = 0; i < agent_->host().domain_count(); ++i) {
      agent_->evictor().EvictSome(static_cast<DomainId>(i), UINT64_MAX);
    }
  }
  testing::FaultyDevice* device() { return device_.get(); }
  bool HasGpu() const { return device_ != nullptr; }
  // Returns a new worker process for the checker of the device, if there is one.
  std::shared_ptr<WorkerOrder> NewWorkerOrder(const std::string& name) const;
  size_t gpu_tenant() const { return options_.gpu_tenant; }
  // Returns whether workers of the tenant may name the GPU pool as their target.
  bool HasGpuFor(size_t tenant) const { return HasGpu() && tenant == options_.gpu_tenant; }
  bool device_lost() const { return device_ != nullptr && !device_->state().ok(); }
  // Returns whether no disk of the running agent is out of service.
  bool DisksServe() const;
  // Counts the blocks of the running agent that are on their way to a disk.
  size_t pending_offloads() const;
  // Returns whether every committed block is written to disk, by the only write policy that
  // survives kill -9.
  bool writes_everything() const;
  // Returns whether host memory may refuse a block that a worker puts, because it is worth less
  // than those that are there. On a node with a disk it never does.
  bool may_refuse() const {
    return disks_.empty() && options_.eviction.host == EvictionPolicy::kLearnt;
  }
  // Returns whether the newest blocks stay in host memory longest, whatever else is there.
  bool keeps_newest() const {
    return options_.eviction.host == EvictionPolicy::kLru ||
           options_.eviction.host == EvictionPolicy::kFifo;
  }
  // Returns whether tenants lend each other host memory.
  bool memory_moves() const { return options_.host_memory == HostMemory::kMoving; }
  // Returns whether no host memory moves between tenants, and none has to.
  bool memory_rests() const;
  // Returns whether a disk is out until the next start, because its manifest could not be read.
  bool MissesADisk() const;
  // NodeDisk has the media of a disk, which outlive the process, and the process's handle on them,
  // which does not.
  struct NodeDisk {
    NodeDisk(uint32_t segments, uint64_t seed);
    testing::SimDiskMedia media;
    testing::SimManifestMedia manifest_media;
    std::unique_ptr<testing::SimDisk> disk;
    std::unique_ptr<testing::SimManifest> manifest;
  };
  const std::vector<std::unique_ptr<NodeDisk>>& disks() { return disks_; }
  const std::string& address() const { return address_; }
  size_t number() const { return options_.number; }

  // Returns the bytes that a worker sees at `offset` in its domain's arena or in the GPU pool.
  std::span<std::byte> Memory(Tier tier, DomainId domain, uint64_t offset, uint64_t bytes);
  // Returns the memory in which the session writes the block that it reserved at `offset`. Empty:
  // the session has ended, and its staging region with it.
  std::span<std::byte> WriteMemory(SessionId session, Tier tier, DomainId domain, uint64_t offset,
                                   uint64_t bytes);

  // Adds a call, which breaks when the node dies.
  void Register(CallInFlight* call) { calls_.insert({next_call_++, call}); }
  void Unregister(CallInFlight* call);
  // Notes what a worker of the tenant was answered that wants to put. REQUIRES: the node runs.
  void NotePut(size_t tenant, Tier target, const Reserved& reserved);

  // Expects that any two conflicting accesses to memory that lanes copy have an order.
  void ExpectOrdered() const;
  // Takes one host slot of this space's size and gives it back. It expects that this evicts at most
  // the blocks of one slab, and none if the answer is that there is no room. REQUIRES: the node
  // serves.
  void AskForRoom(size_t tenant, size_t space);
  // Draws another share of host memory for the tenant.
  void DrawShare(size_t tenant);
  // Begins to change the size of host memory, to `percent` of that at the start. A size that the
  // node cannot have is refused. REQUIRES: it serves.
  void ResizeHost(uint64_t percent);
  // Gives all tenants equal shares again, and host memory its size at the start.
  void ResetShares();
  // Returns the tenant's room on the disks, all together; empty if there are none.
  TenantRoom DiskRoomOf(size_t tenant) const;
  // Gives each tenant another share of the disks, or none. REQUIRES: it serves.
  void ChangeDiskShares();
  // Runs every part's Audit(), and the checks that only the world can make.
  void Audit();
  // Adds the counts of the running agent.
  void AddTo(Coverage* coverage) const;
  // Returns whether no host memory is pinned, except memory that an abandoned copy may still read.
  // REQUIRES: the node is at rest, so that its scrub reads no block.
  bool IsUnpinned() const;
  // Expects that nothing is leased, reserved, pinned or in flight any more.
  void ExpectQuiet();

 private:
  Task<void> Start();
  // Sets the share on the agent's executor; a share that does not fit is refused.
  static Task<void> SetShare(Agent* agent, TenantChange change);
  void DeviceLost();
  void Count(Coverage* coverage) const;

  const World world_;
  const Options options_;
  const NodeId id_;
  const std::string address_;
  std::vector<std::unique_ptr<NodeDisk>> disks_;
  testing::SimRandom random_;
  uint64_t incarnation_ = 0;
  bool serves_ = false;
  uint64_t next_call_ = 0;
  std::set<std::pair<uint64_t, CallInFlight*>> calls_;  // In the order of the calls.

  Coverage past_;  // Coverage of earlier incarnations.

  // The process; null after Crash().
  std::unique_ptr<testing::SimExecutor> executor_;
  std::unique_ptr<testing::SimByteThreads> byte_threads_;
  std::shared_ptr<AccessChecker> checker_;  // Workers keep it, too. Null: no device.
  std::unique_ptr<testing::FaultyDevice> device_;
  std::unique_ptr<GuaranteeChecker> guarantee_checker_;  // Checks `agent_`.
  std::unique_ptr<testing::SimPeerTransport> transport_;
  std::unique_ptr<testing::SimCoordinatorLink> link_;
  std::unique_ptr<Agent> agent_;
};

}  // namespace kvtier::sim

#endif  // KVTIER_TESTS_SIM_SIM_NODE_H_
