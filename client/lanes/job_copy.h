// CopyJob() makes the copy of one job: it plans it, runs it on the lanes, and returns the outcomes.
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
  std::span<const PlannedBlock> blocks;  // Blocks to copy, at least one.
  // Job of an onboard: after each batch that completes layers the lane writes its word, and
  // `submitted` is called with the number of layers when that write is submitted. Layers complete
  // one by one only in the order kLayerWise; in the other order, and for encodings, which have no
  // layers, all of them complete at the end. Null: no word is written, and the order is kWhole.
  std::shared_ptr<LaneJob> marked{};
  PlanOrder order = PlanOrder::kWhole;
  std::function<void(uint32_t layers)> submitted{};  // Called on the lanes' thread.
};

// Result of one block.
struct JobOutcome {
  // Stored bytes of the block. A block that is copied out and has more than the space's block_bytes
  // does not fit and is not stored; a block that is copied in and has 0 is no encoding of its
  // space.
  uint64_t bytes = 0;
  // Sum that the device took of the bytes that it copied; absent for a block that came layer by
  // layer, or is shorter than kLeastSummedBytes.
  std::optional<PayloadSum> sum;
};

// Copies the blocks, ends when every byte has arrived, and returns the outcome of each block.
// Blocks are copied in parts of OutcomeSlab::kJobBatches batches, one after another. REQUIRES: all
// arguments stay until the copy has ended. The lanes' thread only. Errors: PlanBlocks()'s,
// LaneRunner::Run()'s.
Task<absl::StatusOr<std::vector<JobOutcome>>> CopyJob(const LaneParts& parts,
                                                      const PoolMemory& memory,
                                                      const PlannedJob& job);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_JOB_COPY_H_
