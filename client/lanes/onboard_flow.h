// OnboardFlow leases blocks in host memory and copies them into the worker's slots. It accepts the
// copy only if the lease still stands after the last byte and the bytes have the lease's sums.
#ifndef KVTIER_CLIENT_LANES_ONBOARD_FLOW_H_
#define KVTIER_CLIENT_LANES_ONBOARD_FLOW_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "client/client.h"
#include "client/lanes/compute_mark.h"
#include "client/lanes/job_hooks.h"
#include "client/lanes/lane_job.h"
#include "client/lanes/pool_memory.h"
#include "client/lanes/worker_lanes.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"
#include "core/task.h"
#include "tier_gpu/plan/block_plan.h"

namespace kvtier {

struct OnboardWork {
  std::shared_ptr<const PoolMemory> memory;
  std::shared_ptr<LaneJob> job;
  std::vector<EngineKey> keys;
  std::vector<uint32_t> slots;            // Slots for the blocks, one for each key.
  std::optional<absl::Duration> timeout;  // Timeout of the lease; absent: the client's default.
  ReuseHint hint;
  ComputeMark after;  // Mark of compute that still reads the slots.
  absl::Duration mark_timeout;
  // Order of the copies, for a job with a progress word.
  PlanOrder order = PlanOrder::kWhole;
  JobHooks hooks;
};

// Runs an onboard. The returned function calls job->End() and hooks.ended, then raises the job's
// progress word and gives it back.
Task<WorkerLanes::Tell> OnboardFlow(const LaneParts& parts, std::shared_ptr<OnboardWork> work);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_ONBOARD_FLOW_H_
