// PlanBlocks() says which batches of Device::SubmitBlocks() move the blocks of a job between an
// engine's slots and host memory. Pure: no device, no clock, the same answer for the same words.
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

// Least bytes of a group, the layers that are waited for together: with fewer, the calls would take
// most of the time.
inline constexpr uint64_t kMinLayerGroupBytes = uint64_t{2} << 20;

// One block between a slot and host memory of the form's block_bytes.
struct PlannedBlock {
  uint32_t slot = 0;
  std::byte* host = nullptr;
};

enum class PlanOrder : uint8_t {
  kWhole,      // Block by block.
  kLayerWise,  // Layer by layer, so that compute may begin with the first.
};

struct BlockPlan {
  // Layers that are moved together, of every block.
  struct Group {
    BlockGeometry rows{};
    uint64_t stored_bytes = 0;  // Of these layers of one block.
  };
  struct Batch {
    size_t group = 0;  // Of `groups`.
    size_t begin = 0;  // Of `transfers`.
    size_t end = 0;
    // When this batch and those before it have ended, so many layers, from the first on, are
    // complete for every block. Only ever more; of the last batch: all.
    uint32_t layers_complete = 0;
  };
  Codec codec = Codec::kRaw;
  std::vector<Group> groups{};
  std::vector<BlockTransfer> transfers{};  // Of every group, in the order of the job.
  std::vector<Batch> batches{};

  // Returns what a lane is to do; region and outcomes are the caller's to fill in. Sums are taken
  // of whole blocks only. REQUIRES: batch < batches.size(), and the plan stays until it is
  // submitted.
  BlockBatch BatchOf(size_t batch, CopyDirection direction) const;
};

// Plans batches of up to kMaxBatchBlocks blocks, kMaxBlockMoves moves and kMaxBlockBatchBytes, or
// one block. Blocks that are encoded have no layers, and go whole in either order. Errors:
// kInvalidArgument, naming the field and the value: a block's slot does not exist, or its host
// memory is null. CheckBlocks() says what else is wrong.
absl::StatusOr<BlockPlan> PlanBlocks(const BlockForm& form, PlanOrder order,
                                     std::span<const PlannedBlock> blocks);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_BLOCK_PLAN_H_
