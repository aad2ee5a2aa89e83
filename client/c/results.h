// Results of calls as C programs get them.
#ifndef KVTIER_CLIENT_C_RESULTS_H_
#define KVTIER_CLIENT_C_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/c/handles.h"
#include "client/c/kvtier_sequences.h"
#include "client/client.h"

namespace kvtier::c {

// Writes what was matched of a sequence of `keys` keys, its tiers where the caller has room.
void FillMatched(const MatchedSequence& from, size_t keys, kvtier_matched* to);
// Makes a hit of each sequence's blocks, also of none. Returns how many blocks there are.
int64_t FillHits(std::vector<OnboardedBlocks> from, kvtier_hit** to);

// Returns null for a miss.
kvtier_hit* NewHit(OnboardedBlocks blocks);
// Returns null where no slot was reserved.
kvtier_put* NewPut(ReservedBlocks blocks);
// Returns null where nobody answered.
kvtier_put* NewPutOfEntries(ReservedBlocks blocks);

}  // namespace kvtier::c

#endif  // KVTIER_CLIENT_C_RESULTS_H_
