// SeenKeys remembers, in a fixed number of bytes, which block keys it was given lately. It may
// wrongly say yes (for at most 2 keys in 100), and forgets by age.
//
// SeenKeys has two Bloom filters (Bloom 1970) of equal size. Keys are added to the young one. When
// it is full, the old one is emptied and becomes the young one. So the last remembered_keys() keys
// are remembered for certain, and at most twice as many in all.
//
// Pure and deterministic. Executor thread only.
#ifndef KVTIER_TIER_DISK_ADMISSION_SEEN_KEYS_H_
#define KVTIER_TIER_DISK_ADMISSION_SEEN_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block_key.h"

namespace kvtier {

// Ten bits and seven probes for each key: each filter has at most 0.8 % false positives.
inline constexpr uint64_t kSeenBitsPerKey = 10;
inline constexpr int kSeenProbes = 7;
// Room for some 400 keys. With less, a filter is emptied before it is of any use.
inline constexpr uint64_t kMinSeenBytes = 1024;

class SeenKeys {
 public:
  // Makes an empty memory; `bytes` is rounded down to a multiple of 16. REQUIRES: bytes >=
  // kMinSeenBytes.
  explicit SeenKeys(uint64_t bytes);

  bool Contains(const BlockKey& key) const;
  // Adds `key` to the young filter; a key that is there already takes no new room.
  void Add(const BlockKey& key);
  // Returns how many different keys must follow a key before it can be forgotten.
  uint64_t remembered_keys() const { return keys_per_filter_; }

 private:
  using Filter = std::vector<uint64_t>;
  struct Bit {
    size_t word = 0;
    uint64_t mask = 0;
  };
  std::array<Bit, kSeenProbes> BitsOf(const BlockKey& key) const;
  static bool HasAll(const Filter& filter, const std::array<Bit, kSeenProbes>& bits);

  const uint64_t keys_per_filter_;
  Filter young_;
  Filter old_;
  uint64_t young_keys_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_ADMISSION_SEEN_KEYS_H_
