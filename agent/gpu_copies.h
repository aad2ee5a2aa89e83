// GpuCopies runs the agent's copies between host memory and the GPU pool, proves what
// comes out of it, and counts what they took.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_COPIES_H_
#define KVTIER_AGENT_GPU_COPIES_H_

#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "core/block_proof.h"
#include "core/byte_workers.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// A block of the pool and where its copy goes.
struct BlockCopyOut {
  BlockMeta meta;  // With the sum of the bytes in the pool.
  SlotRef slot;
  HostSlot host;
  bool proved = false;  // `host` has the block.
};

class GpuCopies {
 public:
  // Does not own.
  GpuCopies(Executor* executor, ByteWorkers* workers, GpuPool* pool, AgentStats* stats)
      : executor_(executor), workers_(workers), pool_(pool), stats_(stats) {}

  // GpuPool::Scatter() and Gather(), counted.
  Task<absl::Status> Onboard(std::span<const GpuTransfer> blocks);
  Task<absl::Status> Offload(std::span<const GpuTransfer> blocks, CopyUrgency urgency);
  // Offload() of whole blocks, each of which is then proved by its sum, or is not. On an
  // error none is. REQUIRES: as Offload(), and `blocks` stay until it ends.
  Task<absl::Status> CopyOut(std::span<BlockCopyOut> blocks, CopyUrgency urgency);

 private:
  void Begin(GpuLinkStats* link);
  void End(GpuLinkStats* link, absl::Time began, uint64_t bytes, bool ok);

  Executor* const executor_;
  ByteWorkers* const workers_;
  GpuPool* const pool_;
  AgentStats* const stats_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_COPIES_H_
