// These functions copy bytes and sum them in one pass over memory, as blocks enter and leave the
// host tier.
//
// The sum is of the bytes that were stored, not of the bytes that were read: if another process
// changes the source meanwhile, the sum still agrees with what was written to the destination.
//
// Large blocks are written by stores that bypass the caches. All stores are ordered before every
// later store, so a caller that publishes the block afterwards needs no fence of its own.
//
// Thread-safe: no state.
#ifndef KVTIER_CORE_COPY_SUM_H_
#define KVTIER_CORE_COPY_SUM_H_

#include <cstddef>
#include <span>

#include "core/checksum.h"
#include "core/stripe_form.h"

namespace kvtier {

// Consecutive parts of a block, each at a place of its own. May be empty, and of any alignment.
using Piece = std::span<std::byte>;
using ConstPiece = std::span<const std::byte>;

// Returns the sizes' sum.
size_t TotalBytes(std::span<const Piece> pieces);
size_t TotalBytes(std::span<const ConstPiece> pieces);

// Copies `from` to `to` and returns SumPayload() of what was stored.
// REQUIRES: equal sizes; the two do not overlap.
PayloadSum CopyAndSum(Piece to, ConstPiece from);

// Copies the pieces, one after the other, into `to` and returns SumPayload() of what was stored.
// REQUIRES: TotalBytes(from) == to.size(); no piece overlaps `to`.
PayloadSum GatherAndSum(Piece to, std::span<const ConstPiece> from);

// Copies `from` into the pieces, one after the other, and returns SumPayload() of what was stored.
// REQUIRES: TotalBytes(to) == from.size(); no piece overlaps another or `from`.
PayloadSum ScatterAndSum(std::span<const Piece> to, ConstPiece from);

// Copies and sums with the form that the caller chooses; the three functions above use the first of
// StripeForms(). REQUIRES: as for those functions.
PayloadSum CopyAndSumPieces(std::span<const Piece> to, std::span<const ConstPiece> from,
                            const StripeForm& form);

}  // namespace kvtier

#endif  // KVTIER_CORE_COPY_SUM_H_
