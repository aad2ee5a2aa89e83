#include "kernels/block_layout.h"

#include <algorithm>
#include <array>

namespace kvtier::kernels {

BlockLayout TokenMajorLayout(const KvShape& shape, uint64_t row_bytes) {
  const uint64_t token = shape.kv_heads * row_bytes;
  const uint64_t plane = shape.tokens * token;
  return {.layer = shape.axes * plane, .axis = plane, .token = token, .head = row_bytes};
}

BlockLayout HeadMajorLayout(const KvShape& shape, uint64_t row_bytes) {
  const uint64_t head = shape.tokens * row_bytes;
  const uint64_t plane = shape.kv_heads * head;
  return {.layer = shape.axes * plane, .axis = plane, .token = row_bytes, .head = head};
}

BlockLayout FusedLayout(const KvShape& shape, uint64_t row_bytes) {
  const uint64_t head = shape.axes * row_bytes;
  const uint64_t token = shape.kv_heads * head;
  return {.layer = shape.tokens * token, .axis = row_bytes, .token = token, .head = head};
}

BlockMove MoveBetween(const KvShape& shape, uint64_t row_bytes, const BlockLayout& from,
                      const BlockLayout& to) {
  std::array<CopyAxis, 4> axes = {{{shape.layers, from.layer, to.layer},
                                   {shape.axes, from.axis, to.axis},
                                   {shape.tokens, from.token, to.token},
                                   {shape.kv_heads, from.head, to.head}}};
  std::sort(axes.begin(), axes.end(), [](const CopyAxis& a, const CopyAxis& b) {
    return a.destination_stride < b.destination_stride;
  });
  uint64_t run_bytes = row_bytes;
  std::array<CopyAxis, 4> left;
  size_t count = 0;
  for (const CopyAxis& axis : axes) {
    if (axis.count == 1) continue;
    // Merges with a stretch that this axis continues: the run, or the last axis.
    const bool to_run = count == 0;
    const CopyAxis inner = to_run ? CopyAxis{1, run_bytes, run_bytes} : left[count - 1];
    if (axis.source_stride == inner.count * inner.source_stride &&
        axis.destination_stride == inner.count * inner.destination_stride) {
      if (to_run) {
        run_bytes *= axis.count;
      } else {
        left[count - 1].count *= axis.count;
      }
    } else {
      left[count++] = axis;
    }
  }
  BlockMove move;
  move.segment.run_bytes = run_bytes;
  if (count > 0) {
    move.segment.runs = left[0].count;
    move.segment.source_stride = left[0].source_stride;
    move.segment.destination_stride = left[0].destination_stride;
  }
  for (size_t i = 1; i < count; ++i) move.outer.axes[i - 1] = left[i];
  return move;
}

}  // namespace kvtier::kernels
