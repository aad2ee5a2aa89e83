// OffloadFlow waits for the compute that writes the blocks, reserves room in host memory, copies
// the blocks there, and publishes them. It publishes nothing unless every byte has arrived, and
// gives back what it does not publish.
#ifndef KVTIER_CLIENT_LANES_OFFLOAD_FLOW_H_
#define KVTIER_CLIENT_LANES_OFFLOAD_FLOW_H_

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

namespace kvtier {

struct OffloadWork {
  std::shared_ptr<const PoolMemory> memory;
  std::shared_ptr<LaneJob> job;
  std::vector<EngineKey> keys;
  std::vector<uint32_t> slots;      // Slots of the blocks, one for each key.
  std::optional<EngineKey> parent;  // Key before keys[0]; absent: keys[0] is a root.
  ReuseHint hint;
  ComputeMark after;
  absl::Duration mark_timeout;
  JobHooks hooks;
};

// Runs an offload. The returned function calls job->End() and hooks.ended.
Task<WorkerLanes::Tell> OffloadFlow(const LaneParts& parts, std::shared_ptr<OffloadWork> work);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_OFFLOAD_FLOW_H_
