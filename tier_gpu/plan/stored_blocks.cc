#include "tier_gpu/plan/stored_blocks.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status WrongShape(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("stored blocks: ", parts...));
}

// Returns how many rows of the codec lie side by side in one row of the engine.
uint64_t RowsInRow(const KvGeometry& geometry) { return geometry.axes == KvAxes::kFused ? 2 : 1; }

absl::Status CheckShape(const KvGeometry& geometry, const StoredBlocks& stored) {
  const KvShape& shape = stored.shape;
  const uint32_t axes = geometry.axes == KvAxes::kLatent ? 1 : 2;
  if (shape.axes != axes) {
    return WrongShape("axes is ", shape.axes, "; must be the geometry's, ", axes);
  }
  if (shape.layers != geometry.layers) {
    return WrongShape("layers is ", shape.layers, "; must be the geometry's, ", geometry.layers);
  }
  const uint64_t rows = Rows(shape) * RowsInRow(geometry);
  if (rows == 0) return WrongShape("tokens or kv_heads is 0; must be positive");
  if (stored.row_bytes != 0 && geometry.run_bytes / rows == stored.row_bytes &&
      geometry.run_bytes % rows == 0) {
    return absl::OkStatus();
  }
  return WrongShape("row_bytes is ", stored.row_bytes,
                    "; must be so that run_bytes of the geometry, ", geometry.run_bytes, ", are ",
                    rows, " rows");
}

}  // namespace

BlockForm RawForm(const KvGeometry& geometry) {
  return {.rows = {.shape = {.layers = geometry.layers,
                             .axes = geometry.axis_count(),
                             .tokens = 1,
                             .kv_heads = 1},
                   .row_bytes = geometry.run_bytes,
                   .planes = geometry.bases},
          .slots = geometry.slots,
          .slot_stride = geometry.block_stride,
          .block_bytes = geometry.block_bytes()};
}

absl::StatusOr<BlockForm> EncodedForm(const KvGeometry& geometry, const StoredBlocks& stored) {
  KVT_ASSIGN_OR_RETURN(BlockGeometry rows, RowsOf(geometry, stored));
  return BlockForm{.rows = std::move(rows),
                   .slots = geometry.slots,
                   .slot_stride = geometry.block_stride,
                   .codec = stored.codec,
                   .block_bytes = stored.block_bytes};
}

absl::StatusOr<BlockGeometry> RowsOf(const KvGeometry& geometry, const StoredBlocks& stored) {
  KVT_RETURN_IF_ERROR(CheckShape(geometry, stored));
  const uint64_t row = stored.row_bytes * RowsInRow(geometry);
  const bool tokens_first = stored.order == KvOrder::kTokenHead;
  BlockGeometry rows = {.shape = stored.shape,
                        .row_bytes = stored.row_bytes,
                        .token_stride = tokens_first ? stored.shape.kv_heads * row : row,
                        .head_stride = tokens_first ? row : stored.shape.tokens * row};
  rows.planes.reserve(Planes(stored.shape));
  for (const uint64_t base : geometry.bases) {
    for (uint64_t i = 0; i < RowsInRow(geometry); ++i) {
      rows.planes.push_back(base + i * stored.row_bytes);
    }
  }
  return rows;
}

}  // namespace kvtier
