// Makes the fastest plain copy of a block that we know, without a sum: the reference for
// CopyAndSum().
#ifndef KVTIER_BENCH_STREAMING_COPY_H_
#define KVTIER_BENCH_STREAMING_COPY_H_

#include <span>

#include "core/copy_sum.h"

namespace kvtier::bench {

// Copies each piece of `from` to the piece of `to` with the same index, with AVX2 stores that
// bypass the caches if the processor has them, otherwise with memcpy. REQUIRES: as many pieces, of
// equal sizes, which are multiples of 64 bytes; those of `to` are aligned to 32 bytes.
void StreamingCopy(std::span<const Piece> to, std::span<const ConstPiece> from);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_STREAMING_COPY_H_
