// BlockLengths says how long the blocks of one space may be, and RoomFor() how large a slot of host
// memory a block of some length gets.
//
// In a space whose blocks are all of one length, a slot has that length in whole pages. In a space
// with any_length slots come in few sizes, because each size has slabs of its own: four for each
// doubling (4 KiB, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80 KiB and so on) and the longest
// block's own. All spaces with any_length share these kMaxSlotSizes sizes, beside one longest size
// for each space; less than a fifth of a slot is unused beyond the block's pages. Where there are
// too few slabs for so many sizes, a doubling has two sizes (less than a third of a slot is unused)
// or one (less than half), and if need be all shorter blocks share one size.
#ifndef KVTIER_CORE_BLOCK_LENGTHS_H_
#define KVTIER_CORE_BLOCK_LENGTHS_H_

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/space.h"

namespace kvtier {

// Sizes of slots for each doubling of the length, where blocks have lengths of their own.
inline constexpr uint64_t kSlotSizesPerDoubling = 4;
// Number of these sizes up to kMaxBlockBytes.
inline constexpr uint64_t kMaxSlotSizes = 52;

struct BlockLengths {
  uint64_t longest = 0;  // SpaceSpec::block_bytes.
  bool any = false;      // SpaceSpec::any_length; false: all blocks are of the longest's length.

  static BlockLengths Of(const SpaceSpec& spec) {
    return {.longest = spec.block_bytes, .any = spec.any_length};
  }
  // Returns whether a block of the space may have this length.
  constexpr bool Allow(uint64_t length) const {
    return any ? length > 0 && length <= longest : length == longest;
  }
};

// Room for one block in host memory.
struct BlockRoom {
  uint64_t length = 0;      // Length of the block; positive.
  uint64_t slot_bytes = 0;  // Bytes of the slot: SlotBytes(length) or more.
};

// Returns the room of a block in a space whose blocks are all of its length.
constexpr BlockRoom ExactRoom(uint64_t length) {
  return {.length = length, .slot_bytes = SlotBytes(length)};
}

// Returns `length` rounded up to one of `per_doubling` sizes of slots for each doubling. REQUIRES:
// `length` is positive, and `per_doubling` a power of two.
constexpr uint64_t SlotSizeOf(uint64_t length, uint64_t per_doubling) {
  const uint64_t bytes = SlotBytes(length);
  // Between two powers of two, sizes are 1 / per_doubling of the lower one apart, or a page.
  const uint64_t step = std::max(kBlockAlignment, std::bit_floor(bytes - 1) / per_doubling);
  return (bytes + step - 1) / step * step;
}

// Returns the room for a block of `length` in a space whose blocks use `max_sizes` sizes of slots
// at most. REQUIRES: `length` and `max_sizes` are positive.
constexpr BlockRoom RoomFor(const BlockLengths& lengths, uint64_t length, uint64_t max_sizes) {
  if (!lengths.any) return ExactRoom(length);
  const uint64_t longest = SlotBytes(lengths.longest);
  const auto doublings = static_cast<uint64_t>(std::bit_width(longest / kBlockAlignment - 1));
  uint64_t per_doubling = kSlotSizesPerDoubling;
  while (per_doubling > 1 && per_doubling * doublings + 1 > max_sizes) per_doubling /= 2;
  uint64_t slot_bytes = SlotSizeOf(length, per_doubling);
  if (doublings + 1 > max_sizes) {
    slot_bytes = std::max(slot_bytes, kBlockAlignment << (doublings + 1 - max_sizes));
  }
  // No slot is larger than the longest block's: a slab has room for that one.
  const uint64_t most = std::max(SlotBytes(length), longest);
  return {.length = length, .slot_bytes = std::min(slot_bytes, most)};
}

}  // namespace kvtier

#endif  // KVTIER_CORE_BLOCK_LENGTHS_H_
