// SlotPool hands out slots of one stretch of memory; a slot holds exactly one
// block. Blocks of several sizes share the pool by slabs: a slab serves one slot
// size while any of its slots is used and is free for any size after that. Slabs come
// and go: an absent one has no memory, and one that is closed hands out no slot, so that
// it can be removed once its slots are free. The pool knows nothing of keys, eviction or
// I/O, and never touches the memory.
//
// Executor thread only. Invariants, checked by Audit(): used_bytes() is the sum of
// the used slots; no two used slots overlap; an empty slab belongs to no size; an absent
// slab has no slot.
#ifndef KVTIER_TIER_HOST_SLOT_POOL_H_
#define KVTIER_TIER_HOST_SLOT_POOL_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
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
  enum class Slabs : uint8_t { kPresent, kAbsent };
  // `slabs` is the state of all slabs at first. REQUIRES: `pool_bytes` is a multiple of
  // `slab_bytes`, and `slab_bytes` a multiple of 4096.
  SlotPool(uint64_t pool_bytes, uint64_t slab_bytes, Slabs slabs = Slabs::kPresent);

  // Makes an absent slab present, and free.
  void Add(uint32_t slab);
  // Keeps a present slab from handing out slots; those that are used stay so until they are freed.
  void Close(uint32_t slab);
  // Undoes Close().
  void Reopen(uint32_t slab);
  // Makes a closed slab without used slots absent.
  void Remove(uint32_t slab);
  bool IsPresent(uint32_t slab) const { return slabs_[slab].state != Slab::State::kAbsent; }
  bool IsClosed(uint32_t slab) const { return slabs_[slab].state == Slab::State::kClosed; }
  // Returns the absent slabs, lowest first.
  const std::set<uint32_t>& absent_slabs() const { return absent_slabs_; }
  // Returns the highest free slab, which is the last one to be used; nullopt: none is free.
  std::optional<uint32_t> LastFree() const;

  // Takes one slot of `slot_bytes`. REQUIRES: a positive multiple of 4096.
  // Errors: kResourceExhausted, none is free (evict, then retry);
  // kInvalidArgument, larger than a slab.
  absl::StatusOr<SlotOffset> Allocate(uint64_t slot_bytes);
  // REQUIRES: `offset` came from Allocate() and was not freed since.
  void Free(SlotOffset offset);
  // Returns the size of the slabs that are present.
  uint64_t capacity_bytes() const { return present_slabs() * slab_bytes_; }
  uint64_t used_bytes() const { return used_bytes_; }
  uint64_t slab_bytes() const { return slab_bytes_; }
  // Returns the size of the slabs without a slot, which have room for slots of any size.
  uint64_t free_slab_bytes() const { return free_slabs_.size() * slab_bytes_; }
  uint32_t present_slabs() const {
    return static_cast<uint32_t>(slabs_.size() - absent_slabs_.size());
  }
  uint32_t closed_slabs() const { return closed_slabs_; }  // Present slabs that are closed.
  uint32_t free_slabs() const { return static_cast<uint32_t>(free_slabs_.size()); }
  // Returns how a slab is used. REQUIRES: `slab` is one of slab_count().
  struct SlabUse {
    uint64_t slot_bytes = 0;  // Size of the slab's slots; 0: none of its slots is used.
    uint32_t used = 0;        // Slots.
  };
  SlabUse UseOf(uint32_t slab) const {
    return {.slot_bytes = slabs_[slab].slot_bytes, .used = slabs_[slab].used};
  }
  // Numbers of slabs whose slots have one size, and of these slots.
  struct SizeUse {
    uint64_t slabs = 0;
    uint64_t used = 0;
    uint64_t free = 0;
  };
  // Adds the slabs and slots of this pool to `sizes`, by the size of the slots. O(slabs).
  void AddUseTo(std::map<uint64_t, SizeUse>* sizes) const;
  // Returns the number of slabs, absent ones included.
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
  struct Slab {
    enum class State : uint8_t { kAbsent, kPresent, kClosed };
    State state = State::kAbsent;
    uint64_t slot_bytes = 0;  // Size of the slab's slots; 0: none of its slots is used.
    uint32_t used = 0;
    std::vector<uint32_t> free;  // Slot numbers, LIFO: warmest first.
    // Whether each slot is taken, by its number, for Audit() and to catch double frees.
    std::vector<bool> taken;
  };
  // Takes the lowest free slab for slots of `slot_bytes`. False: none is free.
  bool OpenSlab(uint64_t slot_bytes);
  // Lists a slab where Allocate() finds it, or takes it off those lists.
  void List(uint32_t slab);
  void Unlist(uint32_t slab);
  void AuditSlab(uint32_t number) const;

  uint64_t slab_bytes_;
  uint64_t used_bytes_ = 0;
  std::vector<Slab> slabs_;
  uint32_t closed_slabs_ = 0;
  std::set<uint32_t> absent_slabs_;
  std::set<uint32_t> free_slabs_;                      // Present and without a slot: lowest first.
  std::map<uint64_t, std::set<uint32_t>> open_slabs_;  // Slabs with a free slot, by slot size.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_SLOT_POOL_H_
