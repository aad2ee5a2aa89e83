// BlockForm says where the rows of an engine's blocks are in its memory, and how their space stores
// them: as they are (RawForm()), or by a codec (EncodedForm()). Pure.
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

struct BlockForm {
  BlockGeometry rows{};      // Of block 0.
  uint32_t slots = 0;        // Blocks of the engine.
  uint64_t slot_stride = 0;  // From a block's rows to those of the next.
  Codec codec = Codec::kRaw;
  uint64_t block_bytes = 0;  // As BlockBatch has it.
};

// Returns the form of blocks that are stored as they are: each run of the geometry is a row, whose
// bytes are the engine's. REQUIRES: geometry.Validate() was OK.
BlockForm RawForm(const KvGeometry& geometry);
// Returns the form of blocks that a codec stores. REQUIRES, errors: as RowsOf().
absl::StatusOr<BlockForm> EncodedForm(const KvGeometry& geometry, const StoredBlocks& stored);

// Returns the rows of block 0; those of block n are n * block_stride behind them. REQUIRES:
// geometry.Validate() was OK. Errors: kInvalidArgument, naming the field and the value: the shape
// is not what a run of the geometry has.
absl::StatusOr<BlockGeometry> RowsOf(const KvGeometry& geometry, const StoredBlocks& stored);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_STORED_BLOCKS_H_
