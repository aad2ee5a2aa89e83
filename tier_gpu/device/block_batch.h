// BlockBatch is the other thing that a lane moves, beside CopyBatch: blocks whose form
// changes on the way. On the device a block is rows, wherever the engine has them; in
// host memory it is as its space stores it: rows in one order for all engines, encoded.
//
//   out: gather the rows, encode, sum what is stored, one copy to the host
//   in:  one copy to the device, sum what was stored, decode, scatter the rows
//
// So engines whose layouts differ share blocks, and what crosses the link is what is
// stored. Kernels do it; the copy engine moves each block whole.
#ifndef KVTIER_TIER_GPU_DEVICE_BLOCK_BATCH_H_
#define KVTIER_TIER_GPU_DEVICE_BLOCK_BATCH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/codec.h"
#include "kernels/payload_sum.h"
#include "tier_gpu/device/block_rows.h"
#include "tier_gpu/device/copy.h"
#include "tier_gpu/device/device_region.h"

namespace kvtier {

struct BlockTransfer {
  uint64_t device_offset = 0;  // Of the block, from the start of the region.
  std::byte* host = nullptr;   // The batch's block_bytes.
};

// Limit of the blocks of one batch.
inline constexpr size_t kMaxBatchBlocks = 64;
// Stored bytes of one batch, unless one block has more: what is behind it in the lane waits no
// longer than this takes on the link. Beside an engine's GEMMs the kernels of each batch wait for
// room, so few long ones are faster.
inline constexpr uint64_t kMaxBlockBatchBytes = uint64_t{16} << 20;
// What a batch makes the copying kernel move, at most: evenly spaced planes are one such
// move a block, others one each.
inline constexpr size_t kMaxBlockMoves = kMaxCopySegments;

// What became of the blocks of a batch, by number. Written by the device.
struct BlockOutcomes {
  // Out: how it is stored. kRaw: it must stay raw (a NaN, an infinity, exponents that do
  // not pack). More bytes than block_bytes: there is no room for that, it is not stored
  // and the host memory has any content. What an encoding leaves of block_bytes is zero.
  // In: the raw block, and what it was stored as. 0 bytes: it is no encoding of this
  // codec and shape, and what was scattered is anything.
  std::array<kernels::CodecOutcome, kMaxBatchBlocks> codecs{};
  // Of block_bytes as stored, the 128 bits of SumPayload(). `bytes` is 0: not asked for, or
  // block_bytes is below kLeastSummedBytes. Anything for a block that is not stored or is
  // no encoding.
  std::array<kernels::PayloadSum, kMaxBatchBlocks> sums{};
};

struct BlockBatch {
  CopyDirection direction{};
  DeviceRegion* region = nullptr;
  const BlockGeometry* geometry = nullptr;
  Codec codec = Codec::kRaw;  // kRaw: the rows and nothing else.
  // Of each stored block, as the space has it: raw_bytes(), or one of the two sizes of a
  // codec, EncodedBytes() or, with room for blocks that must stay raw, MaxEncodedBytes().
  uint64_t block_bytes = 0;
  // Copied by SubmitBlocks(), with the geometry. In no order among each other. REQUIRES:
  // no destination overlaps another or a source, rows included.
  std::span<const BlockTransfer> blocks;
  // Pinned, and the batch's own from its submission to its end.
  BlockOutcomes* outcomes = nullptr;
  // False: no sums. They take a pass more on the device where a codec or unevenly spaced planes
  // keep them out of the gather.
  bool summed = true;
};

// A block can be stored raw in the batch's block_bytes, with a header that says so.
constexpr bool HasRoomForRaw(const BlockBatch& batch) {
  return batch.codec != Codec::kRaw && batch.block_bytes == MaxEncodedBytes(batch.geometry->shape);
}

// The check of every Device::SubmitBlocks(). Errors: kInvalidArgument, naming the field
// and its value: too many blocks or moves, a shape that the codec does not take, a
// geometry that does not fit it, block_bytes that are none of its sizes, rows that leave
// the region.
absl::Status CheckBlocks(const BlockBatch& batch);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_BLOCK_BATCH_H_
