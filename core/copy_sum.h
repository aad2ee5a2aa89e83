// Bytes move and are summed in one pass over memory: what a connector, the client and the agent
// do with every block that enters or leaves the host tier.
//
// The sum is of the bytes that were stored, not of the bytes that were read: also when another
// process changes the source meanwhile, sum and destination agree. (What becomes of the
// destination afterwards is its owner's affair.)
//
// Thread-safe: no state. Every byte is visible to other threads and processes as after a plain
// store: what publishes the block afterwards needs no fence of its own.
#ifndef KVTIER_CORE_COPY_SUM_H_
#define KVTIER_CORE_COPY_SUM_H_

#include <cstddef>
#include <span>

#include "core/checksum.h"
#include "core/stripe_form.h"

namespace kvtier {

// Copies the pieces into `block`, one after the other; returns SumPayload(block).
// REQUIRES: the pieces' sizes add up to the block's; no piece overlaps the block. Pieces may be
// empty, and of any alignment.
PayloadSum GatherAndSum(std::span<const std::span<const std::byte>> pieces,
                        std::span<std::byte> block);

// Copies `block` into the pieces, one after the other; returns SumPayload() of what they hold
// now. REQUIRES: as GatherAndSum(), and the pieces do not overlap each other.
PayloadSum ScatterAndSum(std::span<const std::byte> block,
                         std::span<const std::span<std::byte>> pieces);

// The same by a form that the caller chooses; the two above take the processor's fastest.
PayloadSum GatherAndSum(std::span<const std::span<const std::byte>> pieces,
                        std::span<std::byte> block, const StripeForm& form);
PayloadSum ScatterAndSum(std::span<const std::byte> block,
                         std::span<const std::span<std::byte>> pieces, const StripeForm& form);

}  // namespace kvtier

#endif  // KVTIER_CORE_COPY_SUM_H_
