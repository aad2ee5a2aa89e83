// These functions copy a block between a worker's own memory, which may be many pieces, and a slot,
// in one pass that also takes the block's sum. ReservedBlocks::CopyIn() and
// OnboardedBlocks::CopyOut() use them.
//
// Thread-safe: no state.
#ifndef KVTIER_CLIENT_BLOCK_COPY_H_
#define KVTIER_CLIENT_BLOCK_COPY_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/copy_sum.h"

namespace kvtier {

// Copies the pieces into `slot`, block `i` of a Reserve, and returns the sum of what was stored.
// Calls ZeroTail(). Errors: kInvalidArgument, `slot` is empty or the pieces' sizes do not add up to
// its size, naming both; nothing was written.
absl::StatusOr<PayloadSum> CopyIntoSlot(size_t i, Piece slot, std::span<const ConstPiece> from);

// Writes zeros after the block in `slot`, up to the end of its last page of 4096 bytes.
void ZeroTail(Piece slot);

// Copies `block`, block `i` of an Onboard, into the pieces and returns the sum of what they hold.
// Errors: kInvalidArgument, `block` is empty or the pieces' sizes do not add up to its size, naming
// both; nothing was written.
absl::StatusOr<PayloadSum> CopyFromBlock(size_t i, ConstPiece block, std::span<const Piece> to);

// Checks that block `i`, copied with the sum `copied`, has the sum that its lease promises.
// Errors: kDataLoss, naming both sums.
absl::Status CheckLeasedSum(size_t i, const PayloadSum& copied, const PayloadSum& promised);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BLOCK_COPY_H_
