// RecordIndex knows which blocks are on the disk, where their records lie and who
// is whose child: the in-memory side of the manifest.
//
// Pure bookkeeping, no I/O. Executor thread only. How an entry is laid out is
// private: compactness is this class's own business.
// Invariants, checked by Audit(): the three views (by key, by segment, by parent)
// name the same blocks; records of a segment do not overlap.
#ifndef KVTIER_TIER_DISK_RECORD_INDEX_H_
#define KVTIER_TIER_DISK_RECORD_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/record.h"

namespace kvtier {

class RecordIndex {
 public:
  struct Entry {
    DiskBlock block;
    RecordPlace place;
  };
  using ByOffset = absl::btree_map<uint64_t, BlockKey>;

  explicit RecordIndex(uint32_t segments) : segments_(segments) {}

  // REQUIRES: the key is absent, and the place free.
  void Insert(const DiskBlock& block, const RecordPlace& place);
  // REQUIRES: the key is present.
  void Erase(const BlockKey& key);
  void Move(const BlockKey& key, const RecordPlace& to);

  // Null: not here. Valid until the next change of the index.
  const Entry* Find(const BlockKey& key) const;
  // True when the block is here, and exactly there.
  bool IsAt(const BlockKey& key, const RecordPlace& place) const;
  // Keys of the blocks here whose parent is `parent`, in key order.
  std::vector<BlockKey> ChildrenOf(const BlockKey& parent) const;
  const ByOffset& InSegment(SegmentId segment) const { return At(segment).records; }
  uint64_t live_bytes(SegmentId segment) const { return At(segment).live_bytes; }
  // Every block, by segment and offset.
  std::vector<DiskBlock> Blocks() const;
  size_t size() const { return entries_.size(); }
  uint64_t used_bytes() const { return used_bytes_; }  // Records, headers included.
  void Audit() const;

 private:
  struct Segment {
    ByOffset records;
    uint64_t live_bytes = 0;
  };
  const Segment& At(SegmentId segment) const { return segments_[static_cast<size_t>(segment)]; }
  Segment& At(SegmentId segment) { return segments_[static_cast<size_t>(segment)]; }
  void Occupy(const Entry& entry);
  void Vacate(const Entry& entry);

  absl::flat_hash_map<BlockKey, Entry> entries_;
  std::vector<Segment> segments_;
  absl::btree_set<std::pair<BlockKey, BlockKey>> children_;  // (parent, child).
  uint64_t used_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_RECORD_INDEX_H_
