// GpuLoader brings blocks from host memory into the GPU pool: reserve, scatter,
// publish. Blocks started together move in one batch.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_LOAD_H_
#define KVTIER_AGENT_GPU_GPU_LOAD_H_

#include <cstdint>
#include <vector>

#include "agent/agent_stats.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/gpu/gpu_offload.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/load_table.h"
#include "core/block_lengths.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class GpuLoader {
 public:
  struct Parts {  // Does not own.
    TaskScope* scope = nullptr;
    BlockIndex* index = nullptr;
    Evictor* evictor = nullptr;
    GpuPool* pool = nullptr;
    DomainId domain{};  // Whose the pool is.
    GpuCopies* copies = nullptr;
    GpuOffloader* offloader = nullptr;
    LoadTable* loads = nullptr;  // The node's, into the pool.
    AgentStats* stats = nullptr;
  };
  GpuLoader(Executor* executor, const Parts& parts) : executor_(executor), parts_(parts) {}

  // True when the pool is this domain's, and each block of such lengths fills a slot of it.
  bool Serves(DomainId domain, const BlockLengths& lengths) const;
  // Takes the block's pin in host memory and starts its load, or joins the one in
  // flight; it moves with the next Flush(). nullptr: no slot could be freed.
  SharedLoad Start(Pin host_pin);
  // Starts moving everything started since the last one.
  void Flush();

 private:
  Task<void> Move(std::vector<CopiedBlock> batch);

  Executor* const executor_;
  const Parts parts_;
  std::vector<CopiedBlock> started_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_LOAD_H_
