// ArcCache is ARC (Megiddo and Modha, FAST 2003): one LRU list of blocks used once and one of
// blocks used again, each followed by a list of blocks evicted from it. A request for an evicted
// block gives more of the room to the list that it left.
#ifndef KVTIER_BENCH_POLICY_ARC_CACHE_H_
#define KVTIER_BENCH_POLICY_ARC_CACHE_H_

#include "bench/policy/block_list.h"
#include "bench/policy/flat_cache.h"

namespace kvtier::bench {

class ArcCache : public FlatCache {
 public:
  ArcCache(size_t blocks_of_trace, size_t capacity);

 protected:
  void Use(uint32_t block) override;
  void Insert(uint32_t block) override;

 private:
  // Makes room for a block that is in neither list of evicted blocks.
  void MakeRoomForNew();
  // Does the paper's REPLACE: evicts from the list that has more than its share, to make room for
  // `block`.
  void Replace(uint32_t block);

  BlockList once_;           // T1 of the paper.
  BlockList again_;          // T2.
  BlockList evicted_once_;   // B1; these are not held.
  BlockList evicted_again_;  // B2; these are not held.
  double once_share_ = 0;    // Number of blocks that once_ should have, p of the paper.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_ARC_CACHE_H_
