// CopyJob() is the copy of one job: planned, run by the lanes, and what became of it.
#ifndef KVTIER_CLIENT_LANES_JOB_COPY_H_
#define KVTIER_CLIENT_LANES_JOB_COPY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/lane_job.h"
#include "client/lanes/pool_memory.h"
#include "client/lanes/worker_lanes.h"
#include "core/checksum.h"
#include "core/task.h"
#include "tier_gpu/plan/block_plan.h"

namespace kvtier {

struct PlannedJob {
  CopyDirection direction{};
  std::span<const PlannedBlock> blocks;  // One at least.
  // Job of an onboard: behind each batch that completes layers its word says so, and `submitted`
  // is called with them when this is submitted. Layers complete one by one in the order kLayerWise
  // alone; in the other, and of encodings, which have no layers, all of them at the end. Null: no
  // word is written, and the order is kWhole.
  std::shared_ptr<LaneJob> marked{};
  PlanOrder order = PlanOrder::kWhole;
  std::function<void(uint32_t layers)> submitted{};  // On the lanes' thread.
};

// Result of one block.
struct JobOutcome {
  // Bytes that are stored of it. Out: more than the space's block_bytes, it does not fit and is not
  // stored. In: 0, it is no encoding of its space.
  uint64_t bytes = 0;
  // Sum that the device took of what it copied; absent: it took none, of a block that came layer by
  // layer or is shorter than kLeastSummedBytes.
  std::optional<PayloadSum> sum;
};

// Returns the outcome of each block when every byte has arrived. Blocks go in parts of
// OutcomeSlab::kJobBatches batches, one behind the other. REQUIRES: all of it stays until the copy
// has ended. The lanes' thread only. Errors: PlanBlocks()'s, LaneRunner::Run()'s.
Task<absl::StatusOr<std::vector<JobOutcome>>> CopyJob(const LaneParts& parts,
                                                      const PoolMemory& memory,
                                                      const PlannedJob& job);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_COPY_H_
