// HostTensors are an inference engine's KV tensors in this process's own memory. They are checked
// once, and then copied block by block into the slots of a Reserve and out of the blocks of an
// Onboard. In a space with a codec a block is encoded on its way out and decoded on its way in.
//
// A value; does not own the tensors, which must outlive it.
#ifndef KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_
#define KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/block_codec.h"
#include "client/host_lanes/host_scratch.h"
#include "client/lanes/kv_tensors.h"
#include "client/onboarded_blocks.h"
#include "client/reserved_blocks.h"
#include "core/copy_sum.h"
#include "core/space.h"
#include "tier_gpu/device/block_rows.h"
#include "tier_gpu/plan/geometry.h"

namespace kvtier {

class HostTensors {
 public:
  // Checks the tensors. Errors: kInvalidArgument, naming the field and the value: as PlaceTensors()
  // and StoredAs().
  static absl::StatusOr<HostTensors> Of(const KvTensors& tensors, const SpaceSpec& spec);

  uint32_t slots() const { return geometry_.slots; }
  // Returns the bytes of a block in the tensors.
  uint64_t block_bytes() const { return geometry_.block_bytes(); }

  // Stores the engine's block `slot` in block `i` of `blocks`, with its sum. Errors: as
  // ReservedBlocks::CopyIn(); kOutOfRange, the codec does not make the block smaller (a NaN, an
  // infinity or exponents that do not pack) and the space has no room for it raw: then give the
  // slot back. REQUIRES: slot < slots(), and what ReservedBlocks::CopyIn() requires.
  absl::Status CopyIn(uint32_t slot, size_t i, ReservedBlocks* blocks, HostScratch* scratch) const;

  // Copies block `i` of `blocks` into the engine's block `slot`, proven. Errors: as
  // OnboardedBlocks::CopyOut(); also kDataLoss, the block is no encoding of the space. After an
  // error the content of the engine's block is undefined; in a space with a codec it is unchanged,
  // because it is written after the proof and the decoding. REQUIRES: slot < slots(), and what
  // OnboardedBlocks::CopyOut() requires.
  absl::Status CopyOut(const OnboardedBlocks& blocks, size_t i, uint32_t slot,
                       HostScratch* scratch) const;

 private:
  // Codec, and how it finds the rows of the engine's blocks.
  struct Encoded {
    BlockCodec codec;
    uint64_t stored_bytes;  // Same as SpaceSpec::block_bytes.
    RowMoves moves;         // Between the engine's rows and the codec's order.
  };

  HostTensors(std::byte* start, KvGeometry geometry)
      : start_(start), geometry_(std::move(geometry)) {}
  // Returns the memory of a block, in the order of the stored block; adjacent runs are one piece.
  // REQUIRES: slot < slots().
  template <typename Span>  // Piece or ConstPiece.
  std::vector<Span> PiecesOf(uint32_t slot) const {
    std::vector<Span> pieces;
    for (const KvRun& run : geometry_.Runs(slot)) {
      pieces.push_back(Span(start_ + run.device_offset, run.bytes));
    }
    return pieces;
  }
  // Copies all rows of a block out of the engine into `raw`, or out of `raw` into the engine.
  void MoveRows(CopyDirection direction, uint32_t slot, std::byte* raw) const;

  std::byte* start_;  // First byte of the lowest tensor, from which the geometry counts.
  KvGeometry geometry_;
  std::optional<Encoded> encoded_;  // Codec of the space; absent: blocks are stored unchanged.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_LANES_HOST_TENSORS_H_
