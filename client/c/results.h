// These functions turn results of the C++ client into those of the C library.
#ifndef KVTIER_CLIENT_C_RESULTS_H_
#define KVTIER_CLIENT_C_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/c/handles.h"
#include "client/c/kvtier_sequences.h"
#include "client/client.h"

namespace kvtier::c {

// Writes to `*to` what was matched of a sequence of `keys` keys, with the tiers if to->tiers is not
// NULL.
void FillMatched(const MatchedSequence& from, size_t keys, kvtier_matched* to);
// Makes a hit of each sequence's blocks, also if there are none. Returns the number of all blocks.
int64_t FillHits(std::vector<OnboardedBlocks> from, kvtier_hit** to);

// Returns a new hit; null for a miss.
kvtier_hit* NewHit(OnboardedBlocks blocks);
// Returns a new put; null if no slot was reserved.
kvtier_put* NewPut(ReservedBlocks blocks);
// Returns a new put; null if no agent answered.
kvtier_put* NewPutOfEntries(ReservedBlocks blocks);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_RESULTS_H_
