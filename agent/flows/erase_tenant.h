// TenantEraser makes a node forget a tenant: its key and blocks on every disk, its blocks in
// memory, and its blocks on their way there. Blocks of other tenants stay. Other nodes forget what
// they have of the tenant when they are asked to.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_ERASE_TENANT_H_
#define KVTIER_AGENT_FLOWS_ERASE_TENANT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/disk/offload.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/sessions/kept_prefixes.h"
#include "agent/tenants.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class TenantEraser {
 public:
  struct Erased {
    uint64_t disk_blocks = 0;
    uint64_t memory_blocks =
        0;  // Blocks of the host tier and, if the pool is the tenant's, the GPU tier.
    // Blocks of the tenant in memory that are leased or being copied: they may still be read, and
    // written to disk under a new key. Call again when they are released.
    uint64_t held_blocks = 0;
  };

  struct Parts {  // Does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    KeptPrefixes* kept = nullptr;
    NodeGpus* gpus = nullptr;
    Offloader* offloader = nullptr;  // Null: no disk tier.
    DiskSet* disks = nullptr;        // Null: no disk tier.
    bool sealed = false;             // Whether payloads on the disks are sealed.
  };
  explicit TenantEraser(const Parts& parts) : parts_(parts) {}

  // Erases the tenant, which need not be configured (any more) if a disk has a key of it. Errors
  // after which nothing was done: kNotFound, the tenant is not configured and no disk has a key of
  // it; kInvalidArgument, the name; kUnavailable, it is not configured and a disk that is not open
  // may have a key. Errors that say what was done and what is still held: kFailedPrecondition, the
  // node has no disk; DiskSet::EraseTenant()'s.
  Task<absl::StatusOr<Erased>> Erase(std::string tenant);
  // Forgets a tenant of the node whose sessions have ended, as Erase() does, also on disks whose
  // payloads are not sealed, and where there is no disk. Errors: DiskSet::EraseTenant()'s and
  // Erase()'s; what could be done is done.
  Task<absl::StatusOr<Erased>> EraseAll(const Tenant* tenant);
  // Erases as Erase() does, until `deadline` at most; the erasure goes on when this call ends
  // before it. Errors also: kDeadlineExceeded, the erasure has not ended by `deadline`;
  // kUnavailable, it has not ended before the agent stops. Call again then.
  Task<absl::StatusOr<Erased>> EraseBy(std::string tenant, absl::Time deadline);

 private:
  struct Erasing;
  Task<void> Run(std::string tenant, std::shared_ptr<Erasing> erasing);
  absl::Status CheckIsKnown(const std::string& tenant) const;
  // Forgets the tenant's blocks on disks whose payloads are not sealed, one after the other;
  // returns how many. Errors: DiskSet::Erase()'s; kUnavailable, a disk is out of service; the
  // others are forgotten all the same.
  Task<absl::StatusOr<uint64_t>> EraseOneByOne(const Tenant* tenant);
  // Drops the domain's blocks from memory, a few a turn, until none is left that nobody holds.
  Task<uint64_t> EvictFromMemory(DomainId domain);
  uint64_t HeldBlocksOf(const Tenant& tenant) const;

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_ERASE_TENANT_H_
