#include "tier_gpu/device/emulated_blocks.h"

#include <algorithm>

#include "core/check.h"
#include "core/checksum.h"
#include "kernels/copy_segments.h"

namespace kvtier {
namespace {

constexpr bool IsOut(CopyDirection direction) { return direction == CopyDirection::kDeviceToHost; }

}  // namespace

EmulatedBlocks::EmulatedBlocks(const BlockBatch& batch)
    : geometry_(*batch.geometry),
      blocks_(batch.blocks.begin(), batch.blocks.end()),
      moves_(RowMoves::Of(geometry_)),
      batch_(batch) {
  batch_.geometry = &geometry_;
  batch_.blocks = blocks_;
}

CopyShape EmulatedBlocks::shape() const {
  const uint64_t stored = blocks_.size() * batch_.block_bytes;
  const uint64_t raw = blocks_.size() * geometry_.raw_bytes();
  // Rows are read and written. A codec reads or writes them once more, and its encoding. Where the
  // sum is not taken during the rows' own pass, the stored bytes are read for it.
  uint64_t kernel_bytes = 2 * raw;
  if (batch_.codec != Codec::kRaw) kernel_bytes += raw + stored;
  const bool fused = batch_.codec == Codec::kRaw && moves_.pieces.size() == 1;
  if (batch_.summed && !fused) kernel_bytes += stored;
  return {.direction = batch_.direction,
          .segments = blocks_.size(),
          .bytes = stored,
          .kernel_bytes = kernel_bytes};
}

void EmulatedBlocks::Move(size_t index) const {
  batch_.outcomes->sums[index] = {};
  if (IsOut(batch_.direction)) {
    Offload(index);
  } else {
    Onboard(index);
  }
}

void EmulatedBlocks::VisitDevice(
    size_t index, absl::FunctionRef<void(std::span<const std::byte> run)> visit) const {
  const std::byte* const block = batch_.region->address() + blocks_[index].device_offset;
  VisitRuns(geometry_,
            [block, visit](uint64_t offset, uint64_t bytes) { visit({block + offset, bytes}); });
}

void EmulatedBlocks::MoveRows(size_t index, std::byte* raw) const {
  std::byte* const block = batch_.region->address() + blocks_[index].device_offset;
  std::vector<kernels::StridedSegment> segments;
  segments.reserve(moves_.pieces.size());
  for (const RowMoves::Piece& piece : moves_.pieces) {
    segments.push_back(moves_.Segment(batch_.direction, piece, block, raw));
  }
  const int error = kernels::CopySegmentsOnHost({.segments = segments.data(),
                                                 .count = static_cast<uint32_t>(segments.size()),
                                                 .outer = moves_.Outer(batch_.direction)});
  KVT_CHECK(error == 0);
}

void EmulatedBlocks::Sum(size_t index) const {
  if (!batch_.summed || batch_.block_bytes < kernels::kLeastSummedBytes) return;
  const PayloadSum sum = SumPayload(host(index));
  batch_.outcomes->sums[index] = {.hi = sum.hi, .lo = sum.lo, .bytes = batch_.block_bytes};
}

void EmulatedBlocks::Offload(size_t index) const {
  kernels::CodecOutcome& outcome = batch_.outcomes->codecs[index];
  std::vector<std::byte> raw(geometry_.raw_bytes());
  MoveRows(index, raw.data());
  if (batch_.codec == Codec::kRaw) {
    std::ranges::copy(raw, blocks_[index].host);
    outcome = {.bytes = raw.size(), .codec = Codec::kRaw};
    return Sum(index);
  }
  // The buffer is zeroed, as bytes after the end of an encoding must be zero.
  std::vector<std::byte> encoded(MaxEncodedBytes(geometry_.shape));
  const kernels::CodecBlock block = {.source = raw.data(),
                                     .source_bytes = raw.size(),
                                     .destination = encoded.data(),
                                     .destination_bytes = encoded.size()};
  KVT_CHECK(kernels::EncodeOnHost({.codec = batch_.codec,
                                   .shape = geometry_.shape,
                                   .blocks = &block,
                                   .outcomes = &outcome,
                                   .count = 1}) == 0);
  std::copy_n(encoded.begin(), batch_.block_bytes, blocks_[index].host);
  if (outcome.bytes <= batch_.block_bytes) Sum(index);
}

void EmulatedBlocks::Onboard(size_t index) const {
  kernels::CodecOutcome& outcome = batch_.outcomes->codecs[index];
  // The block is copied, because the codecs need it at a multiple of 16.
  std::vector<std::byte> stored(host(index).begin(), host(index).end());
  if (batch_.codec == Codec::kRaw) {
    outcome = {.bytes = stored.size(), .codec = Codec::kRaw};
    Sum(index);
    return MoveRows(index, stored.data());
  }
  std::vector<std::byte> raw(geometry_.raw_bytes());
  const kernels::CodecBlock block = {.source = stored.data(),
                                     .source_bytes = stored.size(),
                                     .destination = raw.data(),
                                     .destination_bytes = raw.size()};
  KVT_CHECK(kernels::DecodeOnHost({.codec = batch_.codec,
                                   .shape = geometry_.shape,
                                   .blocks = &block,
                                   .outcomes = &outcome,
                                   .count = 1}) == 0);
  if (outcome.bytes > 0) Sum(index);
  MoveRows(index, raw.data());
}

}  // namespace kvtier
