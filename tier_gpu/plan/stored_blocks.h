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

// Form of blocks in the engine, and the way in which their space stores them.
struct StoredBlocks {
  KvShape shape{};         // See SpaceCodec::shape().
  uint64_t row_bytes = 0;  // head_dim elements of the engine's type.
  KvOrder order = KvOrder::kTokenHead;
  Codec codec = Codec::kRaw;
  uint64_t block_bytes = 0;  // See BlockBatch.
};

struct BlockForm {
  BlockGeometry rows{};      // Rows of block 0.
  uint32_t slots = 0;        // Number of blocks in the engine.
  uint64_t slot_stride = 0;  // Bytes between a block's rows and those of the next.
  Codec codec = Codec::kRaw;
  uint64_t block_bytes = 0;  // See BlockBatch.
};

// Returns the form of blocks that are stored unchanged: each run of the geometry is a row, whose
// bytes are the engine's. REQUIRES: geometry.Validate() was OK.
BlockForm RawForm(const KvGeometry& geometry);
// Returns the form of blocks that a codec stores. REQUIRES, errors: as RowsOf().
absl::StatusOr<BlockForm> EncodedForm(const KvGeometry& geometry, const StoredBlocks& stored);

// Returns the rows of block 0; those of block n begin n * block_stride later. REQUIRES:
// geometry.Validate() was OK. Errors: kInvalidArgument, naming the field and the value: the shape
// is not that of a run of the geometry.
absl::StatusOr<BlockGeometry> RowsOf(const KvGeometry& geometry, const StoredBlocks& stored);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_PLAN_STORED_BLOCKS_H_
