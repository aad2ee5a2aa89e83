// What an onboard in parts tells its caller: blocks as they become ready, and how it ended.
#ifndef KVTIER_CLIENT_ONBOARDED_PART_H_
#define KVTIER_CLIENT_ONBOARDED_PART_H_

#include <cstddef>

#include "client/onboarded_blocks.h"
#include "core/miss_reason.h"

namespace kvtier {

// Blocks of one sequence that became ready since its part before. Of a run they follow those of the
// part before; of a set they are any. blocks.missed() is kNone.
struct OnboardedPart {
  size_t sequence = 0;  // Place of the sequence in the call.
  OnboardedBlocks blocks;
};

// What came of one sequence in all of its parts.
struct OnboardedInParts {
  size_t blocks = 0;  // That came; of a run the leading ones.
  // Why the first block that is missing did not come.
  MissReason missed = MissReason::kUnreachable;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_ONBOARDED_PART_H_
