// NodeDisks are the disks of the node and what is decided about them: what is written
// (DiskAdmission), and how much they may be promised (DiskPromises). A node without a disk has an
// empty one.
//
// Executor thread only.
#ifndef KVTIER_AGENT_DISK_NODE_DISKS_H_
#define KVTIER_AGENT_DISK_NODE_DISKS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "agent/agent_stats.h"
#include "agent/disk/disk_admission.h"
#include "agent/disk/disk_promises.h"
#include "agent/index/block_changes.h"
#include "agent/index/residency.h"
#include "agent/tenants.h"
#include "core/byte_threads.h"
#include "core/eviction_policy.h"
#include "core/eviction_summary.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"
#include "tier_disk/manifest/manifest.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// DiskSeam is one disk, which the node does not own.
struct DiskSeam {
  DiskId id;  // Id of the disk, different for each.
  Disk* disk = nullptr;
  Manifest* manifest = nullptr;
  TenantKeys* keys = nullptr;  // Keys of the payloads; null: they are stored in the clear.
};

class NodeDisks {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    const HostTier* host = nullptr;
    BlockChanges* changes = nullptr;
    Residency* residency = nullptr;
    OffloadStats* stats = nullptr;
  };
  // `eviction` is the policy of every disk.
  NodeDisks(const std::vector<DiskSeam>& disks, const DiskWriteOptions& writes,
            EvictionPolicy eviction, const Parts& parts);

  // Gives each tenant an equal share of the room, opens and recovers the disks, tells BlockChanges
  // of the blocks on them, and begins to scrub each disk at that rate. If there are several disks,
  // one that takes longer than kDiskOpenTimeout joins later. One that fails stays out, also if it
  // is the only one. Errors: DiskSet::SetShares()'s.
  Task<absl::StatusOr<DiskSet::Recovery>> Open(uint64_t scrub_bytes_per_second);
  // Takes in a domain that was added to host memory. The disks may have blocks of its tenant
  // already: the residency is told of these, some in each turn of the executor.
  void AddDomain(const Tenant& tenant);
  // Promises nothing to the disks for the domain any more.
  void DropDomain(DomainId domain);
  void StopScrub();
  // Takes in memory that was added to host memory, and pins it for the I/O of the disks.
  Task<void> AddMemory(std::span<std::byte> memory);
  // Unregisters memory from the disks before it leaves host memory. REQUIRES: no block is in it.
  Task<void> RemoveMemory(std::span<std::byte> memory);
  // Ends when no reclaim runs; false: one still did at `deadline`.
  Task<bool> Idle(absl::Time deadline);

  // set(), admission() and promises() return null if the node has no disk.
  DiskSet* set() const { return set_.get(); }
  DiskAdmission* admission() const { return admission_.get(); }
  DiskPromises* promises() const { return promises_.get(); }
  // Returns whether payloads are sealed under keys of their tenants: on all disks, or on none.
  bool sealed() const { return sealed_; }
  // Returns the sum of the disks' DiskTier::eviction().
  EvictionSummary Eviction() const;
  // Calls `visit` with the id of each disk and what its order of reclaim learns
  // (ReclaimOrder::hazards()).
  template <typename Visit>
  void ForEachOrder(Visit visit) {
    for (const Member& member : members_) visit(member.id, member.tier->hazards());
  }
  // Returns what Open() found.
  const DiskSet::Recovery& recovery() const { return recovery_; }
  void Audit() const;

 private:
  // Parts of one disk; each is destroyed before the parts that it uses.
  struct Member {
    DiskId id;
    Disk* disk = nullptr;
    std::unique_ptr<WatchedDisk> watched;
    std::unique_ptr<DiskTier> tier;
  };
  void Tell(DiskSet::Change change, const BlockKey& key, TenantTag owner) const;
  // Pins the host memory for the disks, so that they move blocks without pinning them each time.
  Task<void> PinHostMemory();
  // Tells the followers what the disks have of a tenant that is new, as that of its domain.
  Task<void> TellOwned(TenantTag owner, DomainId domain);
  // Tells of what the disks had when they were opened.
  void TellRecovered();

  const Parts parts_;
  std::vector<Member> members_;
  bool sealed_ = false;
  std::unique_ptr<DiskSet> set_;
  std::unique_ptr<DiskAdmission> admission_;
  std::unique_ptr<DiskPromises> promises_;
  DiskSet::Recovery recovery_;
  size_t telling_ = 0;  // Calls of TellOwned() that run.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_NODE_DISKS_H_
