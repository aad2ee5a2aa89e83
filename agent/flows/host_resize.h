// HostResizer brings the host memory of all tenants together to the size that an operator asks for,
// by whole slabs, while workers run. To grow, slabs are filled and handed to the tenants by their
// shares. To shrink, slabs leave in the same way as slabs that move between tenants (MemoryMover):
// first free slabs of tenants that have more than their fair share, then the slabs whose blocks are
// worth least. Guarantees and quotas are those of the new size from the start.
//
// A size lasts until the agent ends. Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_HOST_RESIZE_H_
#define KVTIER_AGENT_FLOWS_HOST_RESIZE_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/flows/memory_mover.h"
#include "agent/flows/node_tenants.h"
#include "agent/tenants.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/waits.h"
#include "tier_host/host_shares.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class HostResizer {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    const TenantTable* tenants = nullptr;
    const HostTier* host = nullptr;
    const HostShares* shares = nullptr;
    MemoryMover* mover = nullptr;
    NodeTenants* node_tenants = nullptr;
    uint64_t max_bytes = 0;  // Bytes that memory may grow to.
  };
  struct Size {
    uint64_t bytes = 0;  // Bytes of slabs that are there now, those between two tenants included.
    uint64_t target_bytes = 0;  // Bytes to reach; equal to `bytes`: no resize is in progress.
    // One slab for each tenant, and all slabs of tenants whose memory does not move.
    uint64_t min_bytes = 0;
    uint64_t max_bytes = 0;
    absl::Status ended;  // Reason why the last resize did not reach its target; OK if it did.
  };
  explicit HostResizer(const Parts& parts) : parts_(parts) {}

  // Begins to bring host memory to `bytes`, rounded down to whole slabs, in place of a resize in
  // progress. The resize has kHostResizeTimeout; after that, or when the system has no more memory,
  // the node keeps what it has. Errors: kFailedPrecondition, no tenant's memory moves;
  // kInvalidArgument, naming field and value: less than min_bytes or more than max_bytes;
  // kUnavailable, the agent is stopping.
  absl::Status Begin(uint64_t bytes);
  // Waits until no resize is in progress. Returns false if one still is at `deadline`.
  Task<bool> AwaitEnd(absl::Time deadline);
  // Returns whether memory of any tenant comes and goes, so that there can be another size.
  bool moves() const;
  bool is_under_way() const { return end_ != nullptr; }
  Size size() const;

 private:
  Task<void> Run();
  // Returns why the resize in progress cannot reach its target; OK: it goes on.
  absl::Status Obstacle() const;
  // Returns whether every slab that is to come or go has done so.
  bool IsReached() const;
  uint64_t MinSlabs() const;

  const Parts parts_;
  absl::Time deadline_;
  absl::Status ended_;
  std::shared_ptr<Event> end_;  // End of the resize in progress; nullptr: there is none.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_HOST_RESIZE_H_
