#include "tier_gpu/device/block_rows.h"

#include <optional>
#include <span>
#include <utility>

namespace kvtier {
namespace {

// Returns the strides of planes that are evenly spaced; nullopt if they are not.
std::optional<kernels::BlockLayout> EvenStrides(const BlockGeometry& geometry) {
  const std::span<const uint64_t> planes = geometry.planes;
  const uint32_t axes = geometry.shape.axes;
  const kernels::BlockLayout layout = {
      .layer = geometry.shape.layers > 1 ? planes[axes] - planes[0] : 0,
      .axis = axes > 1 ? planes[1] - planes[0] : 0,
      .token = geometry.token_stride,
      .head = geometry.head_stride};
  for (size_t i = 0; i < planes.size(); ++i) {
    // Strides are unsigned, so no stride leads to a plane below the first one.
    if (planes[i] < planes[0]) return std::nullopt;
    if (planes[i] != planes[0] + i / axes * layout.layer + i % axes * layout.axis) {
      return std::nullopt;
    }
  }
  return layout;
}

kernels::CopyAxis Reversed(const kernels::CopyAxis& axis) {
  return {.count = axis.count,
          .source_stride = axis.destination_stride,
          .destination_stride = axis.source_stride};
}

}  // namespace

RowMoves RowMoves::Of(const BlockGeometry& geometry) {
  KvShape shape = geometry.shape;
  RowMoves moves;
  if (const auto layout = EvenStrides(geometry)) {
    moves.gather = kernels::MoveBetween(shape, geometry.row_bytes, *layout,
                                        kernels::TokenMajorLayout(shape, geometry.row_bytes));
    moves.pieces = {{.device_offset = geometry.planes[0]}};
    return moves;
  }
  shape.layers = 1;
  shape.axes = 1;
  moves.gather = kernels::MoveBetween(
      shape, geometry.row_bytes, {.token = geometry.token_stride, .head = geometry.head_stride},
      kernels::TokenMajorLayout(shape, geometry.row_bytes));
  const uint64_t plane_bytes = Rows(shape) * geometry.row_bytes;
  moves.pieces.reserve(geometry.planes.size());
  for (const uint64_t plane : geometry.planes) {
    moves.pieces.push_back(
        {.device_offset = plane, .raw_offset = moves.pieces.size() * plane_bytes});
  }
  return moves;
}

kernels::StridedSegment RowMoves::Segment(CopyDirection direction, const Piece& piece,
                                          std::byte* device, std::byte* raw) const {
  std::byte* const rows = device + piece.device_offset;
  std::byte* const packed = raw + piece.raw_offset;
  if (direction == CopyDirection::kDeviceToHost) return gather.Between(rows, packed);
  kernels::StridedSegment scatter = gather.Between(packed, rows);
  std::swap(scatter.source_stride, scatter.destination_stride);
  return scatter;
}

kernels::OuterAxes RowMoves::Outer(CopyDirection direction) const {
  kernels::OuterAxes outer = gather.outer;
  if (direction == CopyDirection::kDeviceToHost) return outer;
  for (kernels::CopyAxis& axis : outer.axes) axis = Reversed(axis);
  return outer;
}

void VisitRuns(const BlockGeometry& geometry,
               absl::FunctionRef<void(uint64_t offset, uint64_t bytes)> visit) {
  uint64_t begin = 0;
  uint64_t end = 0;
  for (const uint64_t plane : geometry.planes) {
    for (uint64_t token = 0; token < geometry.shape.tokens; ++token) {
      for (uint64_t head = 0; head < geometry.shape.kv_heads; ++head) {
        const uint64_t row = plane + token * geometry.token_stride + head * geometry.head_stride;
        if (row != end) {
          if (end != begin) visit(begin, end - begin);
          begin = row;
        }
        end = row + geometry.row_bytes;
      }
    }
  }
  if (end != begin) visit(begin, end - begin);
}

}  // namespace kvtier
