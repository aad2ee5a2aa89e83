// Says how the bytes of a block lie in a pool, and plans the copy of a block into another pool, or
// into another block of the same pool, as runs and axes of CopySegments. Rows are opaque bytes, so
// any element type works.
//
// Pure functions; host only.
#ifndef KVTIER_KERNELS_BLOCK_LAYOUT_H_
#define KVTIER_KERNELS_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/copy_segments.h"

namespace kvtier::kernels {

// Strides in bytes from one index of an axis to the next. A row, one token and head of K or of V,
// is always contiguous. In a pool with a tensor for each layer, `layer` is the distance between two
// tensors if all distances are equal; otherwise each layer is a move of its own.
struct BlockLayout {
  uint64_t layer = 0;
  uint64_t axis = 0;  // Between K and V.
  uint64_t token = 0;
  uint64_t head = 0;
};

// Return layouts of contiguous blocks, axes outermost first. `row_bytes`: size of head_dim
// elements.
BlockLayout TokenMajorLayout(const KvShape& shape, uint64_t row_bytes);  // layer axis token head
BlockLayout HeadMajorLayout(const KvShape& shape, uint64_t row_bytes);   // layer axis head token
BlockLayout FusedLayout(const KvShape& shape, uint64_t row_bytes);       // layer token head axis

// Copy of blocks between two layouts. `segment` lacks its addresses; `outer` goes into the launch.
// All moves of one launch are between the same layouts.
struct BlockMove {
  StridedSegment segment{};
  OuterAxes outer{};

  StridedSegment Between(const std::byte* source, std::byte* destination) const {
    StridedSegment moved = segment;
    moved.source = source;
    moved.destination = destination;
    return moved;
  }
};

// Plans the copy of the first shape.tokens tokens of a block: all tokens, or those that a copy on
// write keeps. Bytes that are contiguous on both sides become one run, and neighbouring runs are
// adjacent where they are written.
//
// REQUIRES: no field of the shape is 0.
BlockMove MoveBetween(const KvShape& shape, uint64_t row_bytes, const BlockLayout& from,
                      const BlockLayout& to);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_BLOCK_LAYOUT_H_
