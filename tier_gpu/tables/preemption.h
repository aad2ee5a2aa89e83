// Preemption says who leaves the pool when there are too few slots, and who comes
// back first. Decisions only: BlockTable::SwapOut() and SwapIn() do it.
//
// One order for both: a sequence of a higher priority is ahead, and of the same
// priority the one that started earlier. The last in line goes first, as it has the
// least to lose; the first in line never goes, so that some sequence always gets to
// its end. Nobody goes for one that is behind it, so two never chase each other out.
#ifndef KVTIER_TIER_GPU_TABLES_PREEMPTION_H_
#define KVTIER_TIER_GPU_TABLES_PREEMPTION_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/tables/block_table.h"

namespace kvtier {

// Whom to swap out, together, for `slots` more slots for `beneficiary`, last in line
// first. Sequences that are away already are among them where they hold blocks that
// none but them shares any more. Without any one of them it would be too few slots.
// A slot that is given up is free only when its readers have retired. Pure; O(blocks).
// Errors: kNotFound, the beneficiary; kResourceExhausted, those behind it hold too
// little for themselves (evict, or swap out the beneficiary and wait).
absl::StatusOr<std::vector<SequenceId>> PickVictims(const BlockTable& tables,
                                                    SequenceId beneficiary, size_t slots);

// Of the sequences that are away, the first in line; nullopt, none is. It alone may
// come back: were it passed over for want of slots, it could wait for ever.
std::optional<SequenceId> PickReturn(const BlockTable& tables);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_PREEMPTION_H_
