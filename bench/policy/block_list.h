// BlockList keeps some blocks of a trace in an order, newest to oldest, with every operation in
// constant time. A block is in one list at most once.
#ifndef KVTIER_BENCH_POLICY_BLOCK_LIST_H_
#define KVTIER_BENCH_POLICY_BLOCK_LIST_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/trace.h"

namespace kvtier::bench {

class BlockList {
 public:
  explicit BlockList(size_t blocks_of_trace);

  // Adds a block as the newest. REQUIRES: `block` is not in the list.
  void PushNewest(uint32_t block);
  // Removes a block. REQUIRES: `block` is in the list.
  void Remove(uint32_t block);
  void MoveToNewest(uint32_t block);
  // Removes the oldest block and returns it. REQUIRES: the list is not empty.
  uint32_t PopOldest();

  bool Contains(uint32_t block) const { return links_[block].newer != kNoBlock; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Returns the oldest block; kNoBlock: the list is empty.
  uint32_t Oldest() const { return ToBlock(links_[end()].newer); }
  // Returns the next newer block; kNoBlock: `block` is the newest. REQUIRES: `block` is in the
  // list.
  uint32_t NewerThan(uint32_t block) const { return ToBlock(links_[block].newer); }

 private:
  struct Link {
    uint32_t newer = kNoBlock;  // kNoBlock: the block is not in the list.
    uint32_t older = kNoBlock;
  };
  // The last link closes the ring: it is older than the oldest block and newer than the newest.
  uint32_t end() const { return static_cast<uint32_t>(links_.size() - 1); }
  uint32_t ToBlock(uint32_t link) const { return link == end() ? kNoBlock : link; }

  std::vector<Link> links_;  // Links by block, and one more for the ends of the list.
  size_t size_ = 0;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_BLOCK_LIST_H_
