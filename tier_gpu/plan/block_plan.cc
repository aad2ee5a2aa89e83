#include "tier_gpu/plan/block_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status WrongPlan(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("block plan: ", parts...));
}

// Blocks of one batch.
size_t BatchBlocks(const BlockGeometry& geometry, uint64_t block_bytes) {
  const size_t moves = RowMoves::Of(geometry).pieces.size();
  const uint64_t by_bytes = kMaxBlockBatchBytes / std::max<uint64_t>(block_bytes, 1);
  const size_t most = std::min<uint64_t>({kMaxBatchBlocks, kMaxBlockMoves / moves, by_bytes});
  return std::max<size_t>(most, 1);
}

}  // namespace

BlockBatch BlockPlan::Batch(size_t batch, const StoredBlocks& stored,
                            CopyDirection direction) const {
  KVT_CHECK(batch < ends.size());
  const size_t begin = batch == 0 ? 0 : ends[batch - 1];
  return {.direction = direction,
          .geometry = &geometry,
          .codec = stored.codec,
          .block_bytes = stored.block_bytes,
          .blocks = std::span(blocks).subspan(begin, ends[batch] - begin)};
}

absl::StatusOr<BlockPlan> PlanBlocks(const KvGeometry& geometry, const StoredBlocks& stored,
                                     std::span<const PlannedBlock> blocks) {
  KVT_ASSIGN_OR_RETURN(BlockGeometry rows, RowsOf(geometry, stored));
  BlockPlan plan = {.geometry = std::move(rows)};
  plan.blocks.reserve(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    const PlannedBlock& block = blocks[i];
    if (block.slot >= geometry.slots) {
      return WrongPlan("blocks[", i, "].slot is ", block.slot, " of ", geometry.slots);
    }
    if (block.host == nullptr) return WrongPlan("blocks[", i, "].host is null");
    plan.blocks.push_back(
        {.device_offset = block.slot * geometry.block_stride, .host = block.host});
  }
  const size_t fit = BatchBlocks(plan.geometry, stored.block_bytes);
  plan.ends.reserve(blocks.size() / fit + 1);
  for (size_t begin = 0; begin < blocks.size(); begin += fit) {
    plan.ends.push_back(std::min(begin + fit, blocks.size()));
  }
  return plan;
}

}  // namespace kvtier
