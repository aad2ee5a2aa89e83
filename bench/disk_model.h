// DiskModel is a disk of so many blocks, without bytes: which blocks it holds, and
// what making room for one costs.
#ifndef KVTIER_BENCH_DISK_MODEL_H_
#define KVTIER_BENCH_DISK_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "bench/trace.h"
#include "core/eviction_order.h"

namespace kvtier::bench {

class DiskModel {
 public:
  virtual ~DiskModel() = default;
  virtual bool Contains(uint32_t block) const = 0;
  virtual bool HasChildOf(uint32_t block) const = 0;
  virtual void Touch(uint32_t block) = 0;
  // Makes room and writes. Returns the blocks written: this one, and those that making
  // room wrote again. REQUIRES: !Contains(block).
  virtual uint64_t Write(uint32_t block) = 0;
};

// The log of tier_disk: segments filled in turn; the oldest is reclaimed whole, and
// what was touched since it was appended is appended again with its ancestors, up to
// half a segment. What else is in it goes, and with it all that descends from it. One
// segment is kept in reserve to append to.
class SegmentDisk : public DiskModel {
 public:
  // Does not own `trace`. REQUIRES: blocks >= kSegments.
  SegmentDisk(const Trace& trace, uint64_t blocks);
  bool Contains(uint32_t block) const override { return segment_of_[block] != kNoSegment; }
  bool HasChildOf(uint32_t block) const override { return children_here_[block] > 0; }
  void Touch(uint32_t block) override { touched_[block] = true; }
  uint64_t Write(uint32_t block) override;

  static constexpr size_t kSegments = 64;

 private:
  static constexpr uint32_t kNoSegment = ~uint32_t{0};
  // Appends to the open segment; false: that is full and no other may be opened.
  bool Append(uint32_t block, size_t segments_to_leave);
  // Frees the oldest sealed segment. Returns the blocks appended again.
  uint64_t Reclaim();
  // Touched blocks of `victim` and their ancestors in it, parents before children.
  std::vector<uint32_t> WorthKeeping(uint32_t victim) const;
  void DropWithDescendants(uint32_t block);
  void Forget(uint32_t block);

  const Trace& trace_;
  const uint64_t segment_blocks_;
  std::vector<std::vector<uint32_t>> children_;  // In the trace, by block.
  std::vector<uint32_t> children_here_;          // How many of them are on this disk.
  std::vector<uint32_t> segment_of_;
  std::vector<bool> touched_;                   // Since it was appended.
  std::vector<std::vector<uint32_t>> records_;  // By segment; stale where segment_of_ differs.
  std::deque<uint32_t> free_;
  std::deque<uint32_t> sealed_;  // Oldest first.
  std::optional<uint32_t> open_;
};

// A disk that evicts its coldest leaf for each block it takes: what published results
// assume, and no log can do.
class LruDisk : public DiskModel {
 public:
  // Does not own `trace`.
  LruDisk(const Trace& trace, uint64_t blocks);
  bool Contains(uint32_t block) const override { return order_.Contains(KeyOf(block)); }
  bool HasChildOf(uint32_t block) const override { return children_here_[block] > 0; }
  void Touch(uint32_t block) override;
  uint64_t Write(uint32_t block) override;

 private:
  const Trace& trace_;
  const uint64_t blocks_;
  std::vector<uint32_t> children_here_;
  EvictionOrder order_{EvictionPolicy::kLru};
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_DISK_MODEL_H_
