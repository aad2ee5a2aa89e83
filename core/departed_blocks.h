// DepartedBlocks remembers how often and when last a block was used that left a tier or was refused
// room there, in 4 bytes: a block that comes back goes on from that state. Some four times as many
// blocks as the tier has are remembered; then the oldest are forgotten.
//
// An entry holds 12 bits of its key, so one in 250 blocks that were never here is taken for one
// that was. That costs a hit at most: nothing but an order of eviction asks.
//
// Pure bookkeeping. Executor thread only. O(1).
#ifndef KVTIER_CORE_DEPARTED_BLOCKS_H_
#define KVTIER_CORE_DEPARTED_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/block_key.h"
#include "core/linear_hashing.h"
#include "core/moment.h"
#include "core/reuse_state.h"
#include "core/steady_vector.h"

namespace kvtier {

// Number of entries for each block of the tier, and the least number in all.
inline constexpr size_t kDepartedPerBlock = 4;
inline constexpr size_t kMinDeparted = 65'536;

class DepartedBlocks {
 public:
  struct Departed {
    ReuseState state;    // Uses and turn, up to 3 each; other fields are a new block's.
    double seconds = 0;  // Time since its last use, modulo 2^16 s (18 hours).
  };
  DepartedBlocks() { sets_.Grow(); }

  // Grows to the entries for a tier of `members` blocks; never shrinks.
  void FitTo(size_t members);
  // Remembers a block that was used last at `last`.
  void Add(const BlockKey& key, const ReuseState& state, Moment last);
  // Returns what is remembered of the block.
  std::optional<Departed> Find(const BlockKey& key, Moment now) const;
  // Forgets the block, which came back.
  void Remove(const BlockKey& key);
  // Loads what Find() and Add() look at into the processor's caches.
  void PrefetchCacheLines(const BlockKey& key) const { __builtin_prefetch(&SetOf(key)); }
  size_t capacity() const { return sets_.size() * kWays; }

 private:
  static constexpr size_t kWays = 16;
  struct Entry {
    uint32_t tag : 12 = 0;  // Tag of the block; 0: the entry is empty.
    uint32_t uses : 2 = 0;
    uint32_t turn : 2 = 0;
    uint32_t second : 16 = 0;  // Second of its last use, modulo 2^16.
  };
  static_assert(sizeof(Entry) == 4);
  // Set is one line of the processor's caches; the newest entry comes first.
  struct alignas(64) Set : std::array<Entry, kWays> {};
  static_assert(sizeof(Set) == 64);

  static uint32_t TagOf(const BlockKey& key);
  // Returns the way of the set that holds the tag; kWays: none.
  static size_t WayOf(const Set& set, uint32_t tag);
  const Set& SetOf(const BlockKey& key) const { return sets_[BucketOf(key.hi, sets_.size())]; }
  Set& SetOf(const BlockKey& key) { return sets_[BucketOf(key.hi, sets_.size())]; }

  SteadyVector<Set> sets_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_DEPARTED_BLOCKS_H_
