// TakeBack makes blocks again of what the ledger of the agent before this one says is in
// the GPU pool: each is copied to host memory, proved by the sum that was taken at its
// commit, and published in both tiers. What does not prove itself is dropped. Until a
// block was proved it is a miss, and who puts it meanwhile was first. Once the tenant was
// erased none is published any more.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_TAKE_BACK_H_
#define KVTIER_AGENT_GPU_TAKE_BACK_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "agent/agent_stats.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "core/task.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/pool_ledger.h"

namespace kvtier {

// What of a pool from before is not free.
struct PoolSurvivors {
  struct Block {
    BlockMeta meta;  // As the ledger has it; not proved.
    GpuSlot slot;
  };
  std::vector<Block> blocks;
  std::vector<GpuSlot> handed_out;
};
// REQUIRES: every slot of the pool is free, and the ledger is of its memory.
PoolSurvivors ReadSurvivors(GpuPool* pool, const PoolLedger& ledger);

// Blocks that are copied and proved at a time.
inline constexpr size_t kMaxBlocksTakenBack = 16;

class TakeBack {
 public:
  struct Parts {  // Does not own.
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    GpuPool* pool = nullptr;
    DomainId domain{};  // Whose the pool is.
    GpuCopies* copies = nullptr;
    PoolLedger* ledger = nullptr;
    AgentStats* stats = nullptr;
  };
  using Block = PoolSurvivors::Block;
  TakeBack(const Parts& parts, std::vector<Block> blocks)
      : parts_(parts), blocks_(std::move(blocks)) {
    parts_.stats->gpu_unproved = blocks_.size();
  }

  // Proves them all, or as many as there are when Stop() is called. Once.
  Task<void> Run();
  void Stop() { stopping_ = true; }

 private:
  std::vector<CopiedBlock> NextBatch();
  void Publish(CopiedBlock copy);
  // Of a block whose slot its caller lets go of.
  void Drop(const BlockKey& key, SlotRef slot);

  const Parts parts_;
  std::vector<Block> blocks_;  // Taken from the end.
  bool stopping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_TAKE_BACK_H_
