// BlockBatch is the second kind of work that a lane does, beside CopyBatch: it moves blocks and
// changes their form on the way. On the device a block is rows, at the places where the engine
// keeps them. In host memory a block has the form in which its space stores it: rows in one order
// for all engines, encoded.
//
//   out: gather the rows, encode, sum what is stored, one copy to the host
//   in:  one copy to the device, sum what was stored, decode, scatter the rows
//
// So engines with different layouts share blocks, and only stored bytes cross the link. Kernels
// change the form; the copy engine moves each block whole.
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
  uint64_t device_offset = 0;  // Start of the block, in bytes from the start of the region.
  std::byte* host = nullptr;   // Host memory of the batch's block_bytes.
};

// Maximum number of blocks in one batch.
inline constexpr size_t kMaxBatchBlocks = 64;
// Maximum stored bytes of one batch, unless a single block has more. An operation queued after the
// batch waits no longer than these bytes take on the link. While an engine's GEMMs run, the kernels
// of each batch wait for free multiprocessors, so a few long batches are faster than many short
// ones.
inline constexpr uint64_t kMaxBlockBatchBytes = uint64_t{16} << 20;
// Maximum number of moves that a batch gives to the copying kernel. A block with evenly spaced
// planes is one move, other blocks are one move for each plane.
inline constexpr size_t kMaxBlockMoves = kMaxCopySegments;

// Results of the blocks of a batch, by index in BlockBatch::blocks. The device writes them.
struct BlockOutcomes {
  // Out: how the block is stored. kRaw: the block must stay raw (it has a NaN, an infinity, or
  // exponents that do not pack). `bytes` above block_bytes: the encoding does not fit, the block is
  // not stored, and the content of its host memory is undefined. Bytes of block_bytes after the end
  // of an encoding are zero. In: the size of the raw block, and the codec it was stored with. 0
  // bytes: the input is no encoding of this codec and shape, and the content of the scattered rows
  // is undefined.
  std::array<kernels::CodecOutcome, kMaxBatchBlocks> codecs{};
  // SumPayload() over the block_bytes as stored, 128 bits. `bytes` is 0 if no sum was asked for or
  // block_bytes is below kLeastSummedBytes. Undefined for a block that is not stored or is no
  // encoding.
  std::array<kernels::PayloadSum, kMaxBatchBlocks> sums{};
};

struct BlockBatch {
  CopyDirection direction{};
  DeviceRegion* region = nullptr;
  const BlockGeometry* geometry = nullptr;
  Codec codec = Codec::kRaw;  // kRaw: only the rows move, without a codec.
  // Size of each stored block, as the space defines it: raw_bytes(), or one of a codec's two sizes,
  // EncodedBytes() or, with room for blocks that must stay raw, MaxEncodedBytes().
  uint64_t block_bytes = 0;
  // Blocks to move, in no particular order. SubmitBlocks() copies this list and the geometry.
  // REQUIRES: no destination overlaps another or a source, rows included.
  std::span<const BlockTransfer> blocks;
  // Results. Pinned; used by the batch alone from its submission to its end.
  BlockOutcomes* outcomes = nullptr;
  // Whether sums are taken. A sum costs one more pass on the device if a codec or unevenly spaced
  // planes keep it from being taken during the gather.
  bool summed = true;
};

// Returns whether a block can be stored raw in the batch's block_bytes, with a header that says so.
constexpr bool HasRoomForRaw(const BlockBatch& batch) {
  return batch.codec != Codec::kRaw && batch.block_bytes == MaxEncodedBytes(batch.geometry->shape);
}

// Checks a batch, on behalf of every Device::SubmitBlocks(). Errors: kInvalidArgument, naming the
// field and its value: too many blocks or moves, a shape that the codec does not take, a geometry
// that does not fit the shape, block_bytes that are not one of the sizes, rows that leave the
// region.
absl::Status CheckBlocks(const BlockBatch& batch);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_DEVICE_BLOCK_BATCH_H_
