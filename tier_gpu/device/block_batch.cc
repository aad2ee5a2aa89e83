#include "tier_gpu/device/block_batch.h"

#include "absl/numeric/int128.h"
#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

template <typename... Parts>
absl::Status WrongBatch(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("blocks: ", parts...));
}

absl::Status CheckRange(const char* field, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return WrongBatch(field, " is ", value, "; must be 1 to ", most);
}

absl::Status CheckShape(const BlockGeometry& geometry) {
  const KvShape& shape = geometry.shape;
  // Same bounds as IsEncodable(), but a raw row may have any number of bytes.
  KVT_RETURN_IF_ERROR(CheckRange("layers", shape.layers, 4096));
  KVT_RETURN_IF_ERROR(CheckRange("axes", shape.axes, 2));
  KVT_RETURN_IF_ERROR(CheckRange("tokens", shape.tokens, 65536));
  KVT_RETURN_IF_ERROR(CheckRange("kv_heads", shape.kv_heads, 4096));
  // There are fewer than 2^42 rows, so nothing wraps.
  const uint64_t most = kMaxRawBytes / (Planes(shape) * Rows(shape));
  KVT_RETURN_IF_ERROR(CheckRange("row_bytes", geometry.row_bytes, most));
  if (geometry.planes.size() == Planes(shape)) return absl::OkStatus();
  return WrongBatch("planes has ", geometry.planes.size(), " entries; must have ", Planes(shape));
}

absl::Status CheckCodec(const BlockBatch& batch) {
  const BlockGeometry& geometry = *batch.geometry;
  if (batch.codec == Codec::kRaw) {
    if (batch.block_bytes == geometry.raw_bytes()) return absl::OkStatus();
    return WrongBatch("block_bytes is ", batch.block_bytes, "; must be ", geometry.raw_bytes(),
                      ", as a raw block of this geometry has");
  }
  const auto codec = static_cast<uint32_t>(batch.codec);
  if (!IsKnown(batch.codec)) {
    return WrongBatch("codec is ", codec, "; must be one that this program knows");
  }
  const KvShape& shape = geometry.shape;
  if (!IsEncodable(shape)) {
    return WrongBatch("head_dim is ", shape.head_dim, "; must be one that codec ", codec, " takes");
  }
  if (geometry.row_bytes != 2 * uint64_t{shape.head_dim}) {
    return WrongBatch("row_bytes is ", geometry.row_bytes, "; codec ", codec,
                      " is for bf16, so it must be ", 2 * uint64_t{shape.head_dim});
  }
  const uint64_t encoded = EncodedBytes(batch.codec, shape);
  const uint64_t roomy = MaxEncodedBytes(shape);
  if (encoded >= roomy) {
    return WrongBatch("tokens is ", shape.tokens, "; must be a number that codec ", codec,
                      " makes smaller");
  }
  if (batch.block_bytes == encoded || batch.block_bytes == roomy) return absl::OkStatus();
  return WrongBatch("block_bytes is ", batch.block_bytes, "; must be ", encoded, " or ", roomy,
                    " with codec ", codec);
}

// Returns whether these bytes belong to the region.
bool Holds(const DeviceRegion& region, absl::uint128 offset, absl::uint128 bytes) {
  if (offset + bytes > region.bytes()) return false;
  return region.Holds(static_cast<uint64_t>(offset), static_cast<uint64_t>(bytes));
}

// Checks plane by plane, as memory between two planes may be somebody else's.
absl::Status CheckPlaces(const BlockBatch& batch) {
  const BlockGeometry& geometry = *batch.geometry;
  // Bytes from the first row of a plane to the end of its last row; the strides may have any value.
  const absl::uint128 extent = absl::uint128(geometry.shape.tokens - 1) * geometry.token_stride +
                               absl::uint128(geometry.shape.kv_heads - 1) * geometry.head_stride +
                               geometry.row_bytes;
  for (size_t i = 0; i < batch.blocks.size(); ++i) {
    const uint64_t offset = batch.blocks[i].device_offset;
    for (size_t plane = 0; plane < geometry.planes.size(); ++plane) {
      if (Holds(*batch.region, absl::uint128(offset) + geometry.planes[plane], extent)) continue;
      return WrongBatch("blocks[", i, "] at ", offset, ", with planes[", plane, "] at ",
                        geometry.planes[plane], ", leaves a region of ", batch.region->bytes(),
                        " bytes; must lie in it");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckBlocks(const BlockBatch& batch) {
  if (batch.blocks.size() > kMaxBatchBlocks) {
    return WrongBatch("a batch has ", batch.blocks.size(), " blocks; must have at most ",
                      kMaxBatchBlocks);
  }
  KVT_RETURN_IF_ERROR(CheckShape(*batch.geometry));
  KVT_RETURN_IF_ERROR(CheckCodec(batch));
  KVT_RETURN_IF_ERROR(CheckPlaces(batch));
  const size_t moves = RowMoves::Of(*batch.geometry).pieces.size();
  if (moves * batch.blocks.size() <= kMaxBlockMoves) return absl::OkStatus();
  return WrongBatch("a batch has ", batch.blocks.size(), " blocks of ", moves,
                    " unevenly spaced planes; must have at most ", kMaxBlockMoves,
                    " planes in all");
}

}  // namespace kvtier
