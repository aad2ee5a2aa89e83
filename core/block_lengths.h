// BlockLengths says how long the blocks of one space may be, and how large a slot of host memory a
// block of some length gets.
//
// Where all blocks are of one length a slot is that length in whole pages. Where each has a length
// of its own, slots come in few sizes, so that blocks of many lengths share the slabs of few sizes:
// four for each doubling, 4 KiB, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80 KiB and so on, and
// the longest block's own. That is 52 sizes at most for all spaces with any_length together, beside
// one for each such space. Of a slot less than one part in five is unused beyond the block's pages.
#ifndef KVTIER_CORE_BLOCK_LENGTHS_H_
#define KVTIER_CORE_BLOCK_LENGTHS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/space.h"

namespace kvtier {

// Sizes of slots for each doubling of the length, where blocks have lengths of their own.
inline constexpr uint64_t kSlotSizesPerDoubling = 4;
// Of them up to kMaxBlockBytes.
inline constexpr uint64_t kMaxSlotSizeClasses = 52;

// Room for one block in host memory.
struct BlockRoom {
  uint64_t length = 0;      // Of the block; positive.
  uint64_t slot_bytes = 0;  // SlotBytes(length) or more.
};

// Returns the room of a block in a space whose blocks are all of its length.
constexpr BlockRoom ExactRoom(uint64_t length) {
  return {.length = length, .slot_bytes = SlotBytes(length)};
}

// Returns `length` rounded up to a size of slots for blocks of any length. REQUIRES: it is
// positive.
constexpr uint64_t SlotSizeClass(uint64_t length) {
  const uint64_t bytes = SlotBytes(length);
  // Sizes that begin with the same power of two are as far apart as a part of it, a page at least.
  const uint64_t step =
      std::max(kBlockAlignment, std::bit_floor(bytes - 1) / kSlotSizesPerDoubling);
  return (bytes + step - 1) / step * step;
}

struct BlockLengths {
  uint64_t longest = 0;  // SpaceSpec::block_bytes.
  bool any = false;      // SpaceSpec::any_length; false: all blocks are of the longest's length.

  static BlockLengths Of(const SpaceSpec& spec) {
    return {.longest = spec.block_bytes, .any = spec.any_length};
  }
  // True: a block of the space may have this length.
  constexpr bool Allow(uint64_t length) const {
    return any ? length > 0 && length <= longest : length == longest;
  }
  // Returns the room that a block gets. REQUIRES: `length` is positive.
  constexpr BlockRoom RoomFor(uint64_t length) const {
    if (!any) return ExactRoom(length);
    // No slot is larger than the longest block's: a slab has room for that one.
    const uint64_t most = std::max(SlotBytes(length), SlotBytes(longest));
    return {.length = length, .slot_bytes = std::min(SlotSizeClass(length), most)};
  }
  friend bool operator==(const BlockLengths&, const BlockLengths&) = default;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_BLOCK_LENGTHS_H_
