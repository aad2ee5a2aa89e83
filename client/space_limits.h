// SpaceLimits says how many blocks of a space the agent has room for, so that a put need not try.
#ifndef KVTIER_CLIENT_SPACE_LIMITS_H_
#define KVTIER_CLIENT_SPACE_LIMITS_H_

#include <cstdint>
#include <string>

#include "core/block_lengths.h"

namespace kvtier {

struct SpaceLimits {
  bool usable = false;      // The agent takes the space's blocks now.
  std::string why_not;      // Reason why the space is not usable; empty where it is.
  uint64_t slab_bytes = 0;  // Largest block of this agent. 0, like the rest, if it is not usable.
  BlockLengths lengths;     // Lengths that blocks of the space may have.
  uint64_t slot_bytes = 0;  // Bytes that the longest block of the space takes.
  uint64_t host_slots = 0;  // Slots of that size that fit in the tenant's host memory.
  // Blocks of the space that can be reserved and not yet committed, where workers write to a
  // region of their own (the agent's --worker_memory=staged); 0: the tenant's memory is the limit.
  uint64_t staging_slots = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_SPACE_LIMITS_H_
