// DiskLoader brings blocks from this node's disks to host memory: read, verify (the
// disk tier does both), publish. A bounded number runs at a time; foreground loads
// go before prefetches, and one that nobody waits for any more is not started.
//
// Executor thread only.
#ifndef KVTIER_AGENT_DISK_LOAD_H_
#define KVTIER_AGENT_DISK_LOAD_H_

#include <cstddef>
#include <deque>

#include "agent/agent_stats.h"
#include "agent/block_index.h"
#include "agent/evict.h"
#include "agent/load_table.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

enum class Urgency { kForeground, kPrefetch };

class DiskLoader {
 public:
  // Does not own. `loads` is the node's table of loads into host memory.
  DiskLoader(TaskScope* scope, BlockIndex* index, Evictor* evictor, DiskSet* disks,
             LoadTable* loads, AgentStats* stats)
      : scope_(scope),
        index_(index),
        evictor_(evictor),
        disks_(disks),
        loads_(loads),
        stats_(stats) {}

  // Starts or queues the load. REQUIRES: the block is on disk, not in host memory,
  // and no load of it is in flight. nullptr: the queue is full.
  SharedLoad Start(const BlockKey& key, DomainId domain, Urgency urgency);
  // Starts loads while there is room. To be called also when a disk went out of service:
  // the gets that it holds up count no longer. A load that ends at once calls it again
  // from within: the outer one goes on, or a long queue would overflow the stack.
  void Pump();
  size_t queued() const { return foreground_.size() + prefetch_.size(); }

 private:
  struct Queued {
    BlockKey key;
    DomainId domain{};
    Urgency urgency = Urgency::kForeground;
  };
  Task<void> Run(Queued queued);
  Task<absl::Status> LoadOne(Queued queued);

  TaskScope* const scope_;
  BlockIndex* const index_;
  Evictor* const evictor_;
  DiskSet* const disks_;
  LoadTable* const loads_;
  AgentStats* const stats_;
  std::deque<Queued> foreground_;
  std::deque<Queued> prefetch_;
  size_t running_ = 0;
  bool pumping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_LOAD_H_
