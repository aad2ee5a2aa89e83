// Preemption decides which sequences leave the pool when there are too few slots, and which comes
// back first. It decides only: BlockTable::SwapOut() and SwapIn() do it.
//
// One order serves both: a sequence of higher priority is ahead, and at equal priority the one that
// started earlier. The last in line leaves first, as it has the least to lose. The first in line
// never leaves, so some sequence always finishes. No sequence leaves for one that is behind it, so
// two never chase each other out.
#ifndef KVTIER_TIER_GPU_TABLES_PREEMPTION_H_
#define KVTIER_TIER_GPU_TABLES_PREEMPTION_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "tier_gpu/tables/block_table.h"

namespace kvtier {

// Returns the sequences to swap out together so that `beneficiary` gets `slots` more slots, last in
// line first. Sequences that are already swapped out are included where they hold blocks that only
// they still share. Without any one of the returned sequences there would be too few slots. A slot
// that is given up is free only when its readers have retired. Pure; O(blocks). Errors: kNotFound,
// the beneficiary; kResourceExhausted, those behind it hold too little of their own (evict, or swap
// out the beneficiary and wait).
absl::StatusOr<std::vector<SequenceId>> PickVictims(const BlockTable& tables,
                                                    SequenceId beneficiary, size_t slots);

// Returns the first in line of the sequences that are swapped out; nullopt: there is none. Only
// this one may come back: if others passed it when there are too few slots for it, it could wait
// for ever.
std::optional<SequenceId> PickSwapIn(const BlockTable& tables);

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_TABLES_PREEMPTION_H_
