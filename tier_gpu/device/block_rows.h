// BlockGeometry says where the rows of a block are in an engine's memory, and RowMoves how they are
// moved into one piece of memory, in the order that codecs take, and out of it.
//
// Values. Pure.
#ifndef KVTIER_TIER_GPU_DEVICE_BLOCK_ROWS_H_
#define KVTIER_TIER_GPU_DEVICE_BLOCK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/codec_layout.h"
#include "kernels/block_layout.h"
#include "kernels/copy_segments.h"
#include "tier_gpu/device/copy.h"

namespace kvtier {

// Where the rows of a block are on the device. A row, one token and head of K or of V,
// is contiguous. A plane, one axis of one layer, has its rows at two strides; planes lie
// anywhere: so all that an engine may do is said by this, tensors for each layer, K and V
// apart, interleaved or fused in rows, tokens or heads first.
struct BlockGeometry {
  KvShape shape{};
  uint64_t row_bytes = 0;  // head_dim elements; of a codec: of bf16.
  uint64_t token_stride = 0;
  uint64_t head_stride = 0;
  // Where each begins, from the block's own offset: [layer][axis].
  std::vector<uint64_t> planes{};

  // Rows of a block, [layer][axis][token][head]: the order that codecs take.
  uint64_t raw_bytes() const { return Planes(shape) * Rows(shape) * row_bytes; }
};

// How the rows of a block are moved into one piece of memory, in the order above, and
// out of it.
struct RowMoves {
  struct Piece {
    uint64_t device_offset = 0;  // From the block's own.
    uint64_t raw_offset = 0;
  };
  kernels::BlockMove gather{};  // Of each piece.
  std::vector<Piece> pieces{};  // One, if the planes are evenly spaced.

  // REQUIRES: no count of the shape is 0, and there is a plane for each layer and axis.
  static RowMoves Of(const BlockGeometry& geometry);

  // Both ways take the runs in the order of the raw block, so that a sum of what they
  // read or write is the sum of it.
  kernels::StridedSegment Segment(CopyDirection direction, const Piece& piece, std::byte* device,
                                  std::byte* raw) const;
  kernels::OuterAxes Outer(CopyDirection direction) const;
};

// Every contiguous run of the rows of a block, from its own offset.
void VisitRuns(const BlockGeometry& geometry,
               absl::FunctionRef<void(uint64_t offset, uint64_t bytes)> visit);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_BLOCK_ROWS_H_
