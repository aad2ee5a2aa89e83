// PlanBlocks says which batches of Device::SubmitBlocks() move the blocks of a job
// between an engine's slots and stored blocks, where a codec, a sum or another order of
// tokens and heads is wanted; PlanCopies() is for bytes as they are. Pure.
#ifndef KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_
#define KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/plan/geometry.h"
#include "tier_gpu/plan/planner.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

// Stored bytes of one batch, unless one block has more: what is behind it in the lane
// waits no longer than for a CopyBatch.
inline constexpr uint64_t kMaxBlockBatchBytes = kMaxCopyBytes;

struct BlockPlan {
  BlockGeometry geometry{};
  std::vector<BlockTransfer> blocks{};  // In the order of the job.
  std::vector<size_t> ends{};           // Of each batch, in `blocks`.

  // For a lane; region and outcomes are the caller's to fill in. REQUIRES: batch <
  // ends.size(), and the plan stays until it is submitted.
  BlockBatch Batch(size_t batch, const StoredBlocks& stored, CopyDirection direction) const;
};

// Up to kMaxBatchBlocks blocks, kMaxBlockMoves moves and kMaxBlockBatchBytes a batch, or
// one block. REQUIRES: geometry.Validate() was OK. Errors: kInvalidArgument, naming the
// field and the value: as RowsOf(); a block's slot does not exist, or its host memory is null. What
// else is wrong CheckBlocks() says.
absl::StatusOr<BlockPlan> PlanBlocks(const KvGeometry& geometry, const StoredBlocks& stored,
                                     std::span<const PlannedBlock> blocks);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_
