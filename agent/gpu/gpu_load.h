// GpuLoader brings blocks from host memory into one GPU pool: reserve, scatter,
// publish. Blocks started together move in one batch.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_LOAD_H_
#define KVTIER_AGENT_GPU_GPU_LOAD_H_

#include <cstdint>
#include <vector>

#include "agent/agent_stats.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/gpu/gpu_evict.h"
#include "agent/gpu/gpu_offload.h"
#include "agent/index/gpu_blocks.h"
#include "agent/index/load_table.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class GpuLoader {
 public:
  struct Parts {  // Does not own.
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    GpuBlocks* blocks = nullptr;
    GpuEvictor* evictor = nullptr;
    GpuCopies* copies = nullptr;
    GpuOffloader* offloader = nullptr;
    TierStats* stats = nullptr;
  };
  explicit GpuLoader(const Parts& parts) : parts_(parts), loads_(parts.executor, parts.blocks) {}

  // Takes the block's pin in host memory and starts its load, or joins the one in
  // flight; it moves with the next Flush(). nullptr: no slot could be freed.
  SharedLoad Start(Pin host_pin, const ReuseHint& hint);
  // Starts the copies of all loads that were started since the last Flush().
  void Flush();

 private:
  Task<void> Move(std::vector<CopiedBlock> batch);

  const Parts parts_;
  LoadTable loads_;
  std::vector<CopiedBlock> started_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_LOAD_H_
