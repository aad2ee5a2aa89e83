#include "client/host_lanes/host_tensors.h"

#include "client/lanes/stored_form.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "kernels/copy_segments.h"
#include "tier_gpu/plan/stored_blocks.h"

namespace kvtier {

absl::StatusOr<HostTensors> HostTensors::Of(const KvTensors& tensors, const SpaceSpec& spec) {
  KVT_ASSIGN_OR_RETURN(PlacedTensors placed, PlaceTensors(tensors));
  HostTensors checked(placed.start, std::move(placed.geometry));
  KVT_ASSIGN_OR_RETURN(const StoredForm stored, StoredAs(checked.geometry_, tensors.order, spec));
  if (!stored) return checked;
  KVT_ASSIGN_OR_RETURN(const BlockCodec codec, BlockCodec::For(spec));
  KVT_ASSIGN_OR_RETURN(const BlockGeometry rows, RowsOf(checked.geometry_, *stored));
  checked.encoded_ =
      Encoded{.codec = codec, .stored_bytes = spec.block_bytes, .moves = RowMoves::Of(rows)};
  return checked;
}

absl::Status HostTensors::CopyIn(uint32_t slot, size_t i, ReservedBlocks* blocks,
                                 HostScratch* scratch) const {
  if (!encoded_) return blocks->CopyIn(i, PiecesOf<ConstPiece>(slot));
  const Piece raw = scratch->raw(block_bytes());
  MoveRows(CopyDirection::kDeviceToHost, slot, raw.data());
  const Piece stored = scratch->stored(encoded_->stored_bytes);
  KVT_RETURN_IF_ERROR(encoded_->codec.Encode(raw, stored).status());
  const ConstPiece whole = stored;
  return blocks->CopyIn(i, {&whole, 1});
}

absl::Status HostTensors::CopyOut(const OnboardedBlocks& blocks, size_t i, uint32_t slot,
                                  HostScratch* scratch) const {
  if (!encoded_) return blocks.CopyOut(i, PiecesOf<Piece>(slot));
  // Decodes the proven copy, so that a change of the arena meanwhile has no effect.
  const Piece stored = scratch->stored(encoded_->stored_bytes);
  KVT_RETURN_IF_ERROR(blocks.CopyOut(i, {&stored, 1}));
  const Piece raw = scratch->raw(block_bytes());
  KVT_RETURN_IF_ERROR(encoded_->codec.Decode(stored, raw));
  MoveRows(CopyDirection::kHostToDevice, slot, raw.data());
  return absl::OkStatus();
}

void HostTensors::MoveRows(CopyDirection direction, uint32_t slot, std::byte* raw) const {
  const RowMoves& moves = encoded_->moves;
  std::byte* const block = start_ + slot * geometry_.block_stride;
  for (const RowMoves::Piece& piece : moves.pieces) {
    const kernels::StridedSegment segment = moves.Segment(direction, piece, block, raw);
    const int error = kernels::CopySegmentsOnHost(
        {.segments = &segment, .count = 1, .outer = moves.Outer(direction)});
    KVT_CHECK(error == 0);
  }
}

}  // namespace kvtier
