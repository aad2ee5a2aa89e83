// GpuCopies runs the agent's copies between host memory and the GPU pool, and counts what
// they took.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_COPIES_H_
#define KVTIER_AGENT_GPU_COPIES_H_

#include <span>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "core/executor.h"
#include "core/task.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

class GpuCopies {
 public:
  // Does not own.
  GpuCopies(Executor* executor, GpuPool* pool, AgentStats* stats)
      : executor_(executor), pool_(pool), stats_(stats) {}

  // GpuPool::Scatter() and Gather(), counted.
  Task<absl::Status> Onboard(std::span<const GpuTransfer> blocks);
  Task<absl::Status> Offload(std::span<const GpuTransfer> blocks);

 private:
  void Begin(GpuLinkStats* link);
  void End(GpuLinkStats* link, absl::Time began, uint64_t bytes, bool ok);

  Executor* const executor_;
  GpuPool* const pool_;
  AgentStats* const stats_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_COPIES_H_
