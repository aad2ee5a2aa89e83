// How the bytes of a block lie in a pool, and what copies them into another pool, or
// into another block of the same one: as the runs and axes of CopySegments. Rows are
// opaque bytes, so any element type will do.
//
// Pure functions; host only.
#ifndef KVTIER_KERNELS_BLOCK_LAYOUT_H_
#define KVTIER_KERNELS_BLOCK_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "core/codec_layout.h"
#include "kernels/copy_segments.h"

namespace kvtier::kernels {

// Bytes from one index of an axis to the next; a row, that is a token and head of K or
// of V, is always contiguous. A pool with a tensor for each layer has the distance of
// two tensors as `layer`, where all are as far apart; else each layer is a move of its own.
struct BlockLayout {
  uint64_t layer = 0;
  uint64_t axis = 0;  // K to V.
  uint64_t token = 0;
  uint64_t head = 0;
};

// Blocks that are contiguous, axes outermost first. `row_bytes`: head_dim elements.
BlockLayout TokenMajorLayout(const KvShape& shape, uint64_t row_bytes);  // layer axis token head
BlockLayout HeadMajorLayout(const KvShape& shape, uint64_t row_bytes);   // layer axis head token
BlockLayout FusedLayout(const KvShape& shape, uint64_t row_bytes);       // layer token head axis

// A copy of blocks between two layouts: `segment` lacks its addresses, `outer` goes into
// the launch. All moves of one launch are between the same layouts.
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

// The first shape.tokens tokens of a block: all, or as many as a copy on write keeps.
// What is contiguous on both sides becomes one run, neighbouring runs lie next to each
// other where they are written.
//
// REQUIRES: no field of the shape is 0.
BlockMove MoveBetween(const KvShape& shape, uint64_t row_bytes, const BlockLayout& from,
                      const BlockLayout& to);

}  // namespace kvtier::kernels

#endif  // KVTIER_KERNELS_BLOCK_LAYOUT_H_
