// DiskLoader brings blocks from this node's disks to host memory: read, verify (the disk tier does
// both), publish. A bounded number of loads runs at a time. The domains take turns, and each has a
// guaranteed part of the queue. Foreground loads go before prefetches. A prefetch becomes a
// foreground load when a call begins to wait for it, and a foreground load is not started if no
// call waits for it any more.
//
// Executor thread only.
#ifndef KVTIER_AGENT_DISK_DISK_LOAD_H_
#define KVTIER_AGENT_DISK_DISK_LOAD_H_

#include <cstddef>

#include "agent/agent_stats.h"
#include "agent/disk/load_queue.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/load_table.h"
#include "agent/limits.h"
#include "agent/tenant_shares.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class DiskLoader {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    TaskScope* scope = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    DiskSet* disks = nullptr;
    LoadTable* loads = nullptr;  // Loads into host memory.
    const HostTier* host = nullptr;
    AgentStats* stats = nullptr;
  };
  explicit DiskLoader(const Parts& parts)
      : parts_(parts), queue_shares_(kMaxLoadsQueued, parts.host->domain_count()) {}

  // Starts or queues the load. REQUIRES: the block is on disk, not in host memory,
  // and no load of it is in flight. nullptr: the paying tenant may have no more of the queue.
  SharedLoad Start(const QueuedLoad& wanted);
  // Notes that a call now waits for a load that is in flight. A prefetch becomes a foreground load,
  // whether it waits here or at the disk.
  void MoveToForeground(const BlockKey& key);
  // Guarantees a part of the queue to one tenant more, or to one fewer.
  void AddDomain() { queue_shares_.AddDomain(); }
  void DropDomain(DomainId domain) { queue_shares_.DropDomain(domain); }
  // Sets a domain's weight in the LoadQueue.
  void SetWeight(DomainId domain, uint32_t weight) { queue_.SetWeight(domain, weight); }
  // Starts loads while there is room. Also called when a disk went out of service, because the gets
  // that it holds up no longer count. A load that ends at once calls Pump() from within Pump():
  // only the outer call starts loads, or a long queue would overflow the stack.
  void Pump();
  size_t queued() const { return queue_.size(); }
  const TenantShares& shares() const { return queue_shares_; }  // Shares of kMaxLoadsQueued.

 private:
  Task<void> Run(QueuedLoad queued);
  Task<absl::Status> LoadOne(QueuedLoad queued);

  const Parts parts_;
  LoadQueue queue_;
  TenantShares queue_shares_;  // Shares of kMaxLoadsQueued.
  size_t running_ = 0;
  bool pumping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_DISK_LOAD_H_
