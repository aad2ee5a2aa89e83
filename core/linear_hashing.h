// Linear hashing (Litwin, 1980): a table grows by one bucket at a time, which takes over part of
// the entries of one other bucket. So no insertion rehashes the whole table.
#ifndef KVTIER_CORE_LINEAR_HASHING_H_
#define KVTIER_CORE_LINEAR_HASHING_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace kvtier {

// Returns the bucket of `hash` in a table of `buckets` buckets. REQUIRES: `buckets` > 0.
inline size_t BucketOf(uint64_t hash, size_t buckets) {
  const size_t mask = std::bit_ceil(buckets) - 1;
  const size_t bucket = hash & mask;
  return bucket < buckets ? bucket : bucket & (mask >> 1);
}

// Returns the bucket whose entries move in part to bucket number `buckets`, when it is added.
// REQUIRES: `buckets` > 0.
inline size_t SourceOfNext(size_t buckets) { return buckets - std::bit_floor(buckets); }

}  // namespace kvtier

#endif  // KVTIER_CORE_LINEAR_HASHING_H_
