// PlanBlocks() says which batches of Device::SubmitBlocks() move the blocks of a job between an
// engine's slots and host memory. Pure: it uses no device and no clock, and equal arguments give
// equal plans.
#ifndef KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_
#define KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/device/block_batch.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

// Minimum bytes of the layers of a group, over all blocks of a job. Smaller groups would spend most
// of their time in calls.
inline constexpr uint64_t kMinLayerGroupBytes = uint64_t{2} << 20;

// Copy of one block between a slot and host memory of the form's block_bytes.
struct PlannedBlock {
  uint32_t slot = 0;
  std::byte* host = nullptr;
};

enum class PlanOrder : uint8_t {
  kWhole,      // Block by block.
  kLayerWise,  // Layer by layer, so that compute may begin with the first.
};

struct BlockPlan {
  // Layers that are moved together, for every block.
  struct Group {
    BlockGeometry rows{};
    uint64_t stored_bytes = 0;  // Bytes of these layers of one block.
  };
  struct Batch {
    size_t group = 0;  // Index in `groups`.
    size_t begin = 0;  // Range in `transfers`.
    size_t end = 0;
    // Number of layers, from the first on, that are complete for every block when this batch and
    // those before it have ended. Never falls from batch to batch; the last batch completes all
    // layers.
    uint32_t layers_complete = 0;
  };
  Codec codec = Codec::kRaw;
  std::vector<Group> groups{};
  std::vector<BlockTransfer> transfers{};  // Transfers of every group, in the order of the job.
  std::vector<Batch> batches{};

  // Returns one batch for a lane; the caller fills in region and outcomes. Sums are taken of whole
  // blocks only. REQUIRES: batch < batches.size(), and the plan stays until the batch is submitted.
  BlockBatch BatchOf(size_t batch, CopyDirection direction) const;
};

// Plans batches of up to kMaxBatchBlocks blocks, kMaxBlockMoves moves and kMaxBlockBatchBytes; a
// larger block has a batch of its own. Encoded blocks have no layers and are moved whole in either
// order. Errors: kInvalidArgument, naming the field and the value: a block's slot does not exist,
// or its host memory is null. CheckBlocks() finds all other errors.
absl::StatusOr<BlockPlan> PlanBlocks(const BlockForm& form, PlanOrder order,
                                     std::span<const PlannedBlock> blocks);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_
