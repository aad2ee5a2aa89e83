// CopyJob() is the copy of one job: planned, run by the lanes, and what became of it.
#ifndef KVTIER_CLIENT_LANES_JOB_COPY_H_
#define KVTIER_CLIENT_LANES_JOB_COPY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/lanes/arena_pins.h"
#include "client/lanes/lane_job.h"
#include "client/lanes/pool_memory.h"
#include "client/lanes/worker_lanes.h"
#include "core/task.h"
#include "kernels/codec.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {

struct PlannedJob {
  CopyDirection direction{};
  std::span<const PlannedBlock> blocks;  // One at least.
  const PinnedArena* arena = nullptr;    // Where their host memory is.
  // Job of an onboard: behind each batch that completes layers its word says so, and `submitted`
  // is called with them when this is submitted. Layers complete one by one in the order kLayerWise
  // alone; in the other, and of encodings, which have no layers, all of them at the end. Null: no
  // word is written, and the order is kWhole.
  std::shared_ptr<LaneJob> marked{};
  PlanOrder order = PlanOrder::kWhole;
  std::function<void(uint32_t layers)> submitted{};  // On the lanes' thread.
};

// By block, in a space that encodes: as BlockOutcomes has it. Empty: the bytes are as they are.
using JobOutcomes = std::vector<kernels::CodecOutcome>;

// Ends when every byte has arrived. Encoded blocks go in parts of OutcomeSlab::kJobBatches
// batches, one behind the other. REQUIRES: all of it stays until the copy has ended. The
// lanes' thread only. Errors: PlanCopies()'s, PlanBlocks()'s, LaneRunner::Run()'s.
Task<absl::StatusOr<JobOutcomes>> CopyJob(const LaneParts& parts, const PoolMemory& memory,
                                          const PlannedJob& job);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_COPY_H_
