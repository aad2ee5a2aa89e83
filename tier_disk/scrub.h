// Scrub decides which record of a disk is verified next, and when: segment by segment,
// by offset, each pass once around the disk. Passes come by themselves at a slow rate,
// and one can be asked for. It also counts what was found. docs/design/disk_scrub.md.
//
// A pass looks at every record that was on the disk when it began and is when its turn
// comes. One that a reclaim moved meanwhile was verified by that, from the bytes it
// copied; one written since may or may not be looked at.
//
// Pure: no I/O and no clock. Executor thread only. The flow is disk_scrub.cc.
#ifndef KVTIER_TIER_DISK_SCRUB_H_
#define KVTIER_TIER_DISK_SCRUB_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "core/block_key.h"
#include "core/scrub_pacer.h"
#include "tier_disk/disk_block.h"
#include "tier_disk/log/record_index.h"

namespace kvtier {

// Of the passes that come by themselves: 2 TB in under six days, and a thousandth of
// what an NVMe reads.
inline constexpr uint64_t kScrubBytesPerSecond = uint64_t{4} << 20;
// Of a pass that somebody waits for, if they do not say: 2 TB in two hours.
inline constexpr uint64_t kVerifyBytesPerSecond = uint64_t{256} << 20;
// A start's own reads go first: the first pass begins this long after it.
inline constexpr absl::Duration kFirstScrubAfter = absl::Minutes(1);
// From the end of a pass to the next one that comes by itself.
inline constexpr absl::Duration kScrubRest = absl::Hours(24);
// When the disk had no room for the read in its queue.
inline constexpr absl::Duration kScrubRetryAfter = absl::Milliseconds(100);

struct ScrubCounts {
  uint64_t records = 0;  // Read and verified, whatever came of it; unreadable ones too.
  uint64_t bytes = 0;    // Of those, headers included.
  uint64_t damaged = 0;  // Bytes that were not the block's own: dropped.
  uint64_t errors = 0;   // The disk could not read it: the record stays.
  friend bool operator==(const ScrubCounts&, const ScrubCounts&) = default;
};

struct ScrubPass {
  uint64_t number = 0;  // From 1 on, 0: there was none yet.
  bool asked = false;   // Somebody asked for it.
  absl::Time began = absl::InfinitePast();
  absl::Time ended = absl::InfiniteFuture();  // InfiniteFuture: under way.
  uint32_t segments_done = 0;
  uint32_t segments = 0;
  ScrubCounts counts;
  bool running() const { return number > 0 && ended == absl::InfiniteFuture(); }
};

struct ScrubReport {
  ScrubPass pass;       // The one under way, or the last.
  uint64_t passes = 0;  // That came to their end, since the start.
  ScrubCounts total;    // Of all passes since the start, broken off ones too.
};

class Scrub {
 public:
  struct Options {
    uint32_t segments = 0;
    // Where the first pass begins. A node that restarts more often than a pass takes
    // would else never see the disk's end: draw another at each start.
    uint32_t first_segment = 0;
    uint64_t bytes_per_second = 0;  // Of passes that come by themselves; 0: none do.
  };
  enum class Outcome : uint8_t {
    kVerified,
    kDamaged,
    kUnreadable,
    kGone,  // No longer on the disk.
    kBusy,  // Not read: the disk's queue was full. It comes again.
  };

  // REQUIRES: first_segment < segments.
  Scrub(const Options& options, absl::Time now);

  // Begins a pass now, from where the last one stood; one that came by itself is broken
  // off. False: a pass that was asked for is under way. REQUIRES: the rate is not 0.
  bool Ask(uint64_t bytes_per_second, absl::Time now);
  // When Next() is to be called; InfiniteFuture: not before Ask().
  absl::Time due() const;
  // Begins a pass if none is under way. The record to read now, nullopt when the pass
  // has ended by that. REQUIRES: due() <= now; Done() was called for the one before.
  std::optional<DiskEntry> Next(const RecordIndex& index, absl::Time now);
  // What became of the record that Next() gave. A pass that was asked for meanwhile does
  // not count it: it will come to it.
  void Done(const DiskEntry& entry, Outcome outcome, absl::Time now);

  const ScrubReport& report() const { return report_; }

 private:
  void Begin(bool asked, uint64_t bytes_per_second, absl::Time now);

  const Options options_;
  ScrubPacer pacer_;
  ScrubReport report_;
  absl::Time next_pass_;
  uint32_t segment_;            // The one being read, or the next.
  bool listed_ = false;         // `keys_` is of `segment_`.
  std::vector<BlockKey> keys_;  // Of the segment as it was when its turn came, by offset.
  size_t next_key_ = 0;
  uint64_t reading_ = 0;  // The pass that Next() gave the last record for.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_SCRUB_H_
