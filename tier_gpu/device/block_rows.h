// BlockGeometry says where the rows of a block are in an engine's memory. RowMoves says how they
// are moved into one contiguous piece of memory, in the order that codecs take, and out of it.
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

// Places of the rows of a block on the device. A row, one token and head of K or of V, is
// contiguous. A plane, one axis of one layer, has its rows at two strides; planes may lie anywhere.
// This describes all layouts of engines: a tensor for each layer, K and V apart, interleaved or
// fused in rows, tokens or heads first.
struct BlockGeometry {
  KvShape shape{};
  uint64_t row_bytes = 0;  // Size of head_dim elements; with a codec, of bf16 elements.
  uint64_t token_stride = 0;
  uint64_t head_stride = 0;
  // Start of each plane, in bytes from the start of the block: [layer][axis].
  std::vector<uint64_t> planes{};

  // Returns the size of all rows of a block. Their order is [layer][axis][token][head], which
  // codecs take.
  uint64_t raw_bytes() const { return Planes(shape) * Rows(shape) * row_bytes; }
};

// Moves of the rows of a block between the device and one contiguous piece of memory in the order
// of raw_bytes().
struct RowMoves {
  struct Piece {
    uint64_t device_offset = 0;  // Offset in bytes from the start of the block.
    uint64_t raw_offset = 0;
  };
  kernels::BlockMove gather{};  // Same for every piece.
  std::vector<Piece> pieces{};  // One piece if the planes are evenly spaced.

  // Plans the moves. REQUIRES: no count of the shape is 0, and there is a plane for each layer and
  // axis.
  static RowMoves Of(const BlockGeometry& geometry);

  // Returns one piece as a segment for the kernel. In both directions the runs follow the order of
  // the raw block, so that a sum over the bytes read or written is the sum of the raw block.
  kernels::StridedSegment Segment(CopyDirection direction, const Piece& piece, std::byte* device,
                                  std::byte* raw) const;
  kernels::OuterAxes Outer(CopyDirection direction) const;
};

// Calls `visit` for every contiguous run of the rows of a block, with its offset from the start of
// the block.
void VisitRuns(const BlockGeometry& geometry,
               absl::FunctionRef<void(uint64_t offset, uint64_t bytes)> visit);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_BLOCK_ROWS_H_
