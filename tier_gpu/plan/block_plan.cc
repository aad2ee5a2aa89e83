#include "tier_gpu/plan/block_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status WrongPlan(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("block plan: ", parts...));
}

// Rows of the codec's view that lie side by side in one row of the engine's.
uint64_t RowsInRow(const KvGeometry& geometry) { return geometry.axes == KvAxes::kFused ? 2 : 1; }

absl::Status CheckShape(const KvGeometry& geometry, const StoredBlocks& stored) {
  const kernels::KvShape& shape = stored.shape;
  const uint32_t axes = geometry.axes == KvAxes::kLatent ? 1 : 2;
  if (shape.axes != axes) return WrongPlan("axes is ", shape.axes, "; the geometry has ", axes);
  if (shape.layers != geometry.layers) {
    return WrongPlan("layers is ", shape.layers, "; the geometry has ", geometry.layers);
  }
  const uint64_t rows = kernels::Rows(shape) * RowsInRow(geometry);
  if (rows == 0) return WrongPlan("tokens or kv_heads is 0");
  if (stored.row_bytes != 0 && geometry.run_bytes / rows == stored.row_bytes &&
      geometry.run_bytes % rows == 0) {
    return absl::OkStatus();
  }
  return WrongPlan("row_bytes is ", stored.row_bytes, "; run_bytes of the geometry, ",
                   geometry.run_bytes, ", are ", rows, " rows");
}

BlockGeometry GeometryOf(const KvGeometry& geometry, const StoredBlocks& stored) {
  const uint64_t row = stored.row_bytes * RowsInRow(geometry);
  const bool tokens_first = stored.order == KvOrder::kTokenHead;
  BlockGeometry rows = {.shape = stored.shape,
                        .row_bytes = stored.row_bytes,
                        .token_stride = tokens_first ? stored.shape.kv_heads * row : row,
                        .head_stride = tokens_first ? row : stored.shape.tokens * row};
  rows.planes.reserve(kernels::Planes(stored.shape));
  for (const uint64_t base : geometry.bases) {
    for (uint64_t i = 0; i < RowsInRow(geometry); ++i) {
      rows.planes.push_back(base + i * stored.row_bytes);
    }
  }
  return rows;
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
  KVT_RETURN_IF_ERROR(CheckShape(geometry, stored));
  BlockPlan plan = {.geometry = GeometryOf(geometry, stored)};
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
