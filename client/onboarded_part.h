// OnboardedPart and OnboardedInParts are the results of an onboard in parts: blocks as they become
// ready, and the outcome at the end.
#ifndef KVTIER_CLIENT_ONBOARDED_PART_H_
#define KVTIER_CLIENT_ONBOARDED_PART_H_

#include <cstddef>

#include "client/onboarded_blocks.h"
#include "core/miss_reason.h"

namespace kvtier {

// Blocks of one sequence that became ready since its previous part. Those of a run follow those of
// the previous part; those of a set come in any order. blocks.missed() is kNone.
struct OnboardedPart {
  size_t sequence = 0;  // Place of the sequence in the call.
  OnboardedBlocks blocks;
};

// Outcome of one sequence, over all of its parts.
struct OnboardedInParts {
  size_t blocks = 0;  // Blocks that came; of a run the leading ones.
  // Reason for which the first missing block did not come.
  MissReason missed = MissReason::kUnreachable;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARDED_PART_H_
