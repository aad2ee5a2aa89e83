// SpaceLimits says what of a space fits the agent, so that a put needs no trial.
#ifndef KVTIER_CLIENT_SPACE_LIMITS_H_
#define KVTIER_CLIENT_SPACE_LIMITS_H_

#include <cstdint>
#include <string>

#include "core/block_lengths.h"

namespace kvtier {

struct SpaceLimits {
  bool usable = false;      // The agent takes the space's blocks now.
  std::string why_not;      // Empty where it is usable.
  uint64_t slab_bytes = 0;  // Largest block of this agent. 0, as what follows: it is not usable.
  BlockLengths lengths;     // That blocks of the space may have.
  uint64_t slot_bytes = 0;  // That a block of the space takes, the longest one.
  uint64_t host_slots = 0;  // Of the tenant's host memory, if all of it had such blocks.
  // Blocks of the space that can be reserved and not yet committed, where workers write to a
  // region of their own (the agent's --worker_memory=staged); 0: the tenant's memory is the limit.
  uint64_t staging_slots = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SPACE_LIMITS_H_
