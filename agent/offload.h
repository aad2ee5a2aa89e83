// Offloader writes committed host blocks to disk, in the background and in the
// order of their commits, so that they outlive eviction and kill -9. It never slows
// a put: a full queue or a disk that cannot take more declines, and counts.
//
// Executor thread only.
#ifndef KVTIER_AGENT_OFFLOAD_H_
#define KVTIER_AGENT_OFFLOAD_H_

#include <cstddef>
#include <deque>

#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "agent/tenants.h"
#include "core/byte_workers.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

class Offloader {
 public:
  // Does not own.
  Offloader(ByteWorkers* workers, TaskScope* scope, const TenantTable* tenants, BlockIndex* index,
            DiskSet* disks, AgentStats* stats)
      : workers_(workers),
        scope_(scope),
        tenants_(tenants),
        index_(index),
        disks_(disks),
        stats_(stats) {}

  // Queues a block of the host tier for writing, or declines.
  void Offer(const BlockKey& key);
  // Starts writes while there is room. To be called also when a disk went out of service:
  // the puts that it holds up count no longer. A write that ends at once calls it again
  // from within: the outer one goes on, or a long queue would overflow the stack.
  void Pump();
  // Waiting or being written.
  size_t pending() const { return queue_.size() + running_; }

 private:
  Task<void> Run(BlockKey key);
  Task<void> WriteOne(BlockKey key);

  ByteWorkers* const workers_;
  TaskScope* const scope_;
  const TenantTable* const tenants_;
  BlockIndex* const index_;
  DiskSet* const disks_;
  AgentStats* const stats_;
  std::deque<BlockKey> queue_;
  size_t running_ = 0;
  bool pumping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_OFFLOAD_H_
