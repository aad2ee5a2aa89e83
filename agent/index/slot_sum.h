// These functions finish a slot of host memory that gets a block: they sum the block, with or
// without a copy into the slot, and zero the rest of the slot.
#ifndef KVTIER_AGENT_INDEX_SLOT_SUM_H_
#define KVTIER_AGENT_INDEX_SLOT_SUM_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/checksum.h"
#include "core/copy_sum.h"

namespace kvtier {

// Zeroes the slot's bytes after its first `length`. They go to disk with the block, and no bytes of
// an older block may.
inline void ZeroAfter(std::span<std::byte> slot, uint64_t length) {
  std::ranges::fill(slot.subspan(length), std::byte{0});
}

// Returns the sum of the first `length` bytes, and zeroes the bytes after them.
inline PayloadSum SumSlot(std::span<std::byte> slot, uint64_t length) {
  ZeroAfter(slot, length);
  return SumPayload(slot.first(length));
}

// Copies `block` into the slot and returns the sum, which is taken in the same pass; zeroes the
// rest of the slot. REQUIRES: `block` is no longer than the slot.
inline PayloadSum CopyToSlot(std::span<std::byte> slot, std::span<const std::byte> block) {
  ZeroAfter(slot, block.size());
  return CopyAndSum(slot.first(block.size()), block);
}

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_SLOT_SUM_H_
