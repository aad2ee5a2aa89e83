// SegmentLog decides where the next record goes. It knows which segment is open and how full it is,
// which are free, and which are sealed and in what order.
//
// Pure bookkeeping: no I/O, no keys, no clock. Executor thread only.
//
//   free --Reserve--> open --full--> sealed --BeginReclaim--> reclaiming --Free--> free
//
// A segment is never appended to after a restart. Its generation rises each time it becomes free,
// before the first byte is written to it again. Generations are drawn from one counter, so they
// also order the segments by age.
//
// Invariants, checked by Audit(): every segment is in one state and in the list of that state only;
// at most one is open; only open and sealed ones have writers.
#ifndef KVTIER_TIER_DISK_LOG_SEGMENT_LOG_H_
#define KVTIER_TIER_DISK_LOG_SEGMENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "tier_disk/disk_block.h"
#include "tier_disk/io/disk.h"

namespace kvtier {

// Number of segments kept free for reclaim to re-append into; puts never take the last one.
inline constexpr size_t kReserveSegments = 1;

class SegmentLog {
 public:
  // Segment as recovery found it: one that holds records is sealed, others are free.
  struct Found {
    uint64_t generation = 0;
    bool holds_records = false;
  };
  // Purpose of a reservation: reclaim may take the reserve.
  enum class Use { kPut, kReclaim };

  // Makes a log. REQUIRES: segment_bytes is a multiple of 4096.
  SegmentLog(std::span<const Found> segments, uint64_t segment_bytes);

  // Reserves room for one record of `bytes`; seals the open segment if the record does not fit.
  // nullopt: no segment may be opened (reclaim one, then retry). The caller ends the write with
  // EndWrite() exactly once. REQUIRES: bytes <= segment_bytes.
  std::optional<RecordPlace> Reserve(uint64_t bytes, Use use);
  // While no segment is free, makes puts leave `bytes` for reclaim in the open segment. 0: none.
  void ReserveForReclaim(uint64_t bytes) { reserved_for_reclaim_ = bytes; }
  // Returns the bytes of records that reclaim can append for certain: a whole segment, or the rest
  // of the open one once the reserve is in use.
  uint64_t reclaim_room() const;
  void EndWrite(const RecordPlace& place);

  // Returns the segments that may be reclaimed: sealed ones without writers, oldest first.
  std::vector<SegmentId> Reclaimable() const;
  // Returns whether a segment can be reclaimed only when writes in flight to it have ended.
  bool AwaitsWrites() const;
  // Returns the sealed segments, oldest first, then the open one.
  std::vector<SegmentId> Written() const;
  // Begins a reclaim. REQUIRES: `segment` is reclaimable. Ends with Free() or PutBack().
  void BeginReclaim(SegmentId segment);
  void Free(SegmentId segment, uint64_t generation);
  void PutBack(SegmentId segment);  // Makes it the oldest sealed segment again.

  uint64_t NextGeneration() { return ++last_generation_; }
  uint64_t generation(SegmentId segment) const;
  size_t free_segments() const { return free_.size(); }
  uint64_t segment_bytes() const { return segment_bytes_; }
  // Returns the offset after the segment's last record, written or reserved. For segments found at
  // recovery, where it is unknown: segment_bytes().
  uint64_t tail(SegmentId segment) const;
  void Audit() const;

 private:
  enum class State : uint8_t { kFree, kOpen, kSealed, kReclaiming };
  struct Segment {
    State state = State::kFree;
    uint64_t generation = 0;
    uint64_t tail = 0;
    uint32_t writers = 0;  // Number of records reserved and not yet ended.
  };
  Segment& At(SegmentId segment);
  const Segment& At(SegmentId segment) const;

  const uint64_t segment_bytes_;
  std::vector<Segment> segments_;
  std::deque<SegmentId> free_;    // FIFO, which spreads wear.
  std::deque<SegmentId> sealed_;  // Oldest first.
  std::optional<SegmentId> open_;
  uint64_t last_generation_ = 0;
  uint64_t reserved_for_reclaim_ = 0;  // Bytes.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_LOG_SEGMENT_LOG_H_
