// StoredBlocks says how a space stores an engine's blocks where it does not store them as they are,
// and RowsOf() where the rows of such blocks are in the engine's memory. Pure.
#ifndef KVTIER_TIER_GPU_PLAN_STORED_BLOCKS_H_
#define KVTIER_TIER_GPU_PLAN_STORED_BLOCKS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "core/codec_layout.h"
#include "tier_gpu/device/block_rows.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

// What blocks are to the engine, and how their space stores them.
struct StoredBlocks {
  KvShape shape{};         // As SpaceCodec::shape().
  uint64_t row_bytes = 0;  // head_dim elements of the engine's type.
  KvOrder order = KvOrder::kTokenHead;
  Codec codec = Codec::kRaw;
  uint64_t block_bytes = 0;  // As BlockBatch has it.
};

// Returns the rows of block 0; those of block n are n * block_stride behind them. REQUIRES:
// geometry.Validate() was OK. Errors: kInvalidArgument, naming the field and the value: the shape
// is not what a run of the geometry has.
absl::StatusOr<BlockGeometry> RowsOf(const KvGeometry& geometry, const StoredBlocks& stored);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_STORED_BLOCKS_H_
