// The sum of a block in its slot of host memory, as a commit takes it and a copy is proved.
#ifndef KVTIER_AGENT_SLOT_SUM_H_
#define KVTIER_AGENT_SLOT_SUM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/checksum.h"

namespace kvtier {

// Of the first `length` bytes. The rest of the slot is zeroed: it goes to disk with them,
// and nothing of an older block may.
inline PayloadSum SumSlot(std::span<std::byte> slot, uint64_t length) {
  std::ranges::fill(slot.subspan(length), std::byte{0});
  return SumPayload(slot.first(length));
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_SLOT_SUM_H_
