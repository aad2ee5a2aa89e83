// TenantEraser makes a node forget a tenant: its key and blocks on every disk, and what
// of it lies in memory. What other nodes have they forget when they are asked.
//
// Executor thread only.
#ifndef KVTIER_AGENT_ERASE_TENANT_H_
#define KVTIER_AGENT_ERASE_TENANT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "agent/block_index.h"
#include "agent/evict.h"
#include "agent/gpu_offload.h"
#include "agent/tenants.h"
#include "core/task.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class TenantEraser {
 public:
  struct Erased {
    uint64_t disk_blocks = 0;
    uint64_t memory_blocks = 0;  // Of the host tier, and all that were in the GPU tier.
    // Of the tenant, in host memory, leased or on their way: they may still be read, and
    // written to disk under a new key. Call again when they are released.
    uint64_t held_blocks = 0;
  };

  struct Parts {  // Does not own.
    const TenantTable* tenants = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    GpuOffloader* gpu_offloader = nullptr;  // nullptr: no GPU tier.
    DiskSet* disks = nullptr;               // nullptr: no disk tier.
  };
  explicit TenantEraser(const Parts& parts) : parts_(parts) {}

  // `tenant` need not be one of the configured ones. Whether a block in the GPU tier is the
  // tenant's nobody knows, so that tier is emptied of what nobody holds. Errors:
  // kFailedPrecondition, the node has no disk; DiskSet::EraseTenant()'s. Memory is
  // cleared in any case.
  Task<absl::StatusOr<Erased>> Erase(std::string tenant);

 private:
  uint64_t EvictFromMemory(const Tenant* tenant);

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_ERASE_TENANT_H_
