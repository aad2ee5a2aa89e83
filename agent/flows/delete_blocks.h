// BlockDeleter drops blocks that their own tenant names from every tier of this node: what an
// engine knows to be of no use any more, or must not be kept. Other nodes learn of it by the usual
// reports, and keep copies of their own.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_
#define KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_

#include <cstddef>
#include <vector>

#include "agent/block_run.h"
#include "agent/gpu/node_gpus.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "core/task.h"
#include "tier_disk/disk_set.h"

namespace kvtier {

// What became of the named blocks that this node had.
struct Deleted {
  size_t blocks = 0;  // In no tier any more.
  // Leased, being copied, or not erased by their disk: they stay in some tier, and are found again.
  size_t held = 0;
};

class BlockDeleter {
 public:
  struct Parts {  // Not owned.
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    NodeGpus* gpus = nullptr;
    DiskSet* disks = nullptr;  // nullptr: no disk tier.
  };
  explicit BlockDeleter(const Parts& parts) : parts_(parts) {}

  // Ends when the disks have forgotten the blocks for good.
  Task<Deleted> Delete(std::vector<BlockRun> runs);

 private:
  void DropFromMemory(const BlockKey& key);

  const Parts parts_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_DELETE_BLOCKS_H_
