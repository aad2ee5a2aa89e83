// ReplayedCache is one tier through which a trace is replayed: it knows which blocks it holds,
// without any bytes. A subclass decides which blocks leave; this class counts.
//
// A request hits its longest held prefix, then the cache inserts all of its blocks. Transfers take
// no time. Blocks are the numbers of one trace.
//
// Invariant, checked after each request: at most `capacity` blocks are held.
#ifndef KVTIER_BENCH_POLICY_REPLAYED_CACHE_H_
#define KVTIER_BENCH_POLICY_REPLAYED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/trace.h"

namespace kvtier::bench {

class ReplayedCache {
 public:
  // Makes an empty cache. `blocks_of_trace` is the number of blocks of the trace. REQUIRES:
  // capacity > 0.
  ReplayedCache(size_t blocks_of_trace, size_t capacity);
  virtual ~ReplayedCache() = default;

  // Serves the next request of the trace and returns how many leading blocks it hit.
  size_t Request(const TraceRequest& request);

  bool Contains(uint32_t block) const { return held_[block]; }
  // Notes whether a disk below has the block.
  virtual void NoteBelow(uint32_t /*block*/, bool /*is_below*/) {}
  size_t capacity() const { return capacity_; }
  size_t size() const { return size_; }
  // Returns the number of blocks inserted so far, without blocks that left again before their
  // request ended.
  uint64_t insertions() const { return insertions_; }
  // Returns the blocks that left for the last request, and those of its own that were not kept, in
  // the order in which they left.
  const std::vector<uint32_t>& left() const { return left_; }

 protected:
  // Uses the request's blocks and inserts the missing ones, by Enter() and Leave().
  virtual void TakeIn(const TraceRequest& request) = 0;
  // Inserts a block. REQUIRES: `block` is not held.
  void Enter(uint32_t block);
  // Removes a block. REQUIRES: `block` is held.
  void Leave(uint32_t block);
  // Notes that `block` of the request is not inserted. REQUIRES: it is not held.
  void Refuse(uint32_t block);

 private:
  const size_t capacity_;
  size_t size_ = 0;
  uint64_t insertions_ = 0;
  std::vector<bool> held_;  // Whether each block is held.
  std::vector<uint32_t> left_;
  std::vector<uint32_t> missing_;  // Blocks of the request that were not held at its start.
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_REPLAYED_CACHE_H_
