// RangePool hands out ranges of one stretch of memory, of any sizes side by side. It knows nothing
// of what they are for, and never touches the memory.
//
// RangePool is used by one thread at a time. Audit() checks its invariants: free ranges do not
// overlap, no two of them touch, and with used_bytes() they are the whole pool.
#ifndef KVTIER_TIER_HOST_RANGE_POOL_H_
#define KVTIER_TIER_HOST_RANGE_POOL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace kvtier {

class RangePool {
 public:
  explicit RangePool(uint64_t bytes);
  // Takes `bytes` at the beginning of the smallest free range that has them, the lowest of equal
  // ones, and returns the offset. nullopt: no range has so many. REQUIRES: `bytes` is positive.
  std::optional<uint64_t> Take(uint64_t bytes);
  // Gives a range back. REQUIRES: Take(bytes) returned `offset`, and it was not freed since.
  void Free(uint64_t offset, uint64_t bytes);
  uint64_t used_bytes() const { return used_bytes_; }
  void Audit() const;

 private:
  void AddFree(uint64_t offset, uint64_t bytes);
  void RemoveFree(std::map<uint64_t, uint64_t>::iterator range);

  const uint64_t capacity_bytes_;
  uint64_t used_bytes_ = 0;
  std::map<uint64_t, uint64_t> free_;                // Bytes by offset.
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // The free ranges again, as {bytes, offset}.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_RANGE_POOL_H_
