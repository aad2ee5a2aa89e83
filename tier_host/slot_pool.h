// SlotPool hands out slots of one stretch of memory; a slot holds exactly one
// block. Blocks of several sizes share the pool by slabs: a slab serves one slot
// size while any of its slots is used and is free for any size after that. It
// knows nothing of keys, eviction or I/O, and never touches the memory.
//
// Executor thread only. Invariants, checked by Audit(): used_bytes() is the sum of
// the used slots; no two used slots overlap; an empty slab belongs to no size.
#ifndef KVTIER_TIER_HOST_SLOT_POOL_H_
#define KVTIER_TIER_HOST_SLOT_POOL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/status/statusor.h"

namespace kvtier {

// A slot's place: bytes from the start of the pool's memory.
struct SlotOffset {
  uint64_t value = 0;
  friend auto operator<=>(const SlotOffset&, const SlotOffset&) = default;
};

class SlotPool {
 public:
  // REQUIRES: `pool_bytes` is a multiple of `slab_bytes`, which is one of 4096.
  SlotPool(uint64_t pool_bytes, uint64_t slab_bytes);
  // Takes one slot of `slot_bytes`. REQUIRES: a positive multiple of 4096.
  // Errors: kResourceExhausted, none is free (evict, then retry);
  // kInvalidArgument, larger than a slab.
  absl::StatusOr<SlotOffset> Allocate(uint64_t slot_bytes);
  // REQUIRES: `offset` came from Allocate() and was not freed since.
  void Free(SlotOffset offset);
  uint64_t capacity_bytes() const { return pool_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t slab_bytes() const { return slab_bytes_; }
  // Of slabs without a slot: room for slots of any size.
  uint64_t free_slab_bytes() const { return free_slabs_.size() * slab_bytes_; }
  // How a slab is used. REQUIRES: `slab` is one of slab_count().
  struct SlabUse {
    uint64_t slot_bytes = 0;  // 0: the slab is free.
    uint32_t used = 0;        // Slots.
  };
  SlabUse UseOf(uint32_t slab) const {
    return {.slot_bytes = slabs_[slab].slot_bytes, .used = slabs_[slab].used};
  }
  uint32_t slab_count() const { return static_cast<uint32_t>(slabs_.size()); }
  uint32_t SlabOf(SlotOffset offset) const {
    return static_cast<uint32_t>(offset.value / slab_bytes_);
  }
  // Returns the slot's number in its slab. REQUIRES: as Free().
  uint32_t NumberOf(SlotOffset offset) const {
    return static_cast<uint32_t>(offset.value % slab_bytes_ / UseOf(SlabOf(offset)).slot_bytes);
  }
  void Audit() const;

 private:
  // Takes the lowest free slab for slots of `slot_bytes`. False: none is free.
  bool OpenSlab(uint64_t slot_bytes);
  struct Slab {
    uint64_t slot_bytes = 0;  // 0: the slab is free.
    uint32_t used = 0;
    std::vector<uint32_t> free;  // Slot numbers, LIFO: warmest first.
    std::vector<bool> taken;     // By slot number, for Audit and double frees.
  };
  const uint64_t pool_bytes_;
  const uint64_t slab_bytes_;
  uint64_t used_bytes_ = 0;
  std::vector<Slab> slabs_;
  std::set<uint32_t> free_slabs_;                      // Lowest first.
  std::map<uint64_t, std::set<uint32_t>> open_slabs_;  // By slot size: slabs with a free slot.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_SLOT_POOL_H_
