// Scrub decides which record of a disk is verified next, and when. It goes segment by segment, by
// offset; each pass goes once around the disk. Regular passes run at a slow rate, and a pass can be
// requested. Scrub also counts the results. docs/design/disk_scrub.md.
//
// A pass covers every record that was on the disk when the pass began and still is when its turn
// comes. A reclaim verifies the records that it moves meanwhile, from the bytes it copies. A record
// written since the pass began may or may not be covered.
//
// Pure: no I/O and no clock. Executor thread only. disk_scrub.cc has the flow.
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

// Rate of regular passes: they read 2 TB in under six days, and take a thousandth of an NVMe
// drive's read bandwidth.
inline constexpr uint64_t kScrubBytesPerSecond = uint64_t{4} << 20;
// Default rate of a requested pass: 2 TB in two hours.
inline constexpr uint64_t kVerifyBytesPerSecond = uint64_t{256} << 20;
// Time from the start to the first pass, because the start's own reads go first.
inline constexpr absl::Duration kFirstScrubAfter = absl::Minutes(1);
// Time from the end of a pass to the next regular one.
inline constexpr absl::Duration kScrubRest = absl::Hours(24);
// Time until a retry when the disk's queue had no room for the read.
inline constexpr absl::Duration kScrubRetryAfter = absl::Milliseconds(100);

struct ScrubCounts {
  // Number of records verified, whatever the result; includes unreadable ones.
  uint64_t records = 0;
  uint64_t bytes = 0;    // Bytes of those, headers included.
  uint64_t damaged = 0;  // Number of records whose bytes were damaged; they were dropped.
  uint64_t errors = 0;   // Number of records that the disk could not read; they stay.
  friend bool operator==(const ScrubCounts&, const ScrubCounts&) = default;
};

struct ScrubPass {
  uint64_t number = 0;  // Number of the pass, from 1; 0: there was none yet.
  bool asked = false;   // Whether the pass was requested.
  absl::Time began = absl::InfinitePast();
  absl::Time ended = absl::InfiniteFuture();  // InfiniteFuture: running.
  uint32_t segments_done = 0;
  uint32_t segments = 0;
  ScrubCounts counts;
  bool running() const { return number > 0 && ended == absl::InfiniteFuture(); }
};

struct ScrubReport {
  ScrubPass pass;       // Running pass, or the last one.
  uint64_t passes = 0;  // Number of passes completed since the start.
  ScrubCounts total;    // Sum of all passes since the start, including ones that were broken off.
};

class Scrub {
 public:
  struct Options {
    uint32_t segments = 0;
    // Segment where the first pass begins. Draw another one at each start: a node that restarts
    // more often than a pass takes would otherwise never reach the disk's end.
    uint32_t first_segment = 0;
    uint64_t bytes_per_second = 0;  // Rate of regular passes; 0: there are none.
  };
  enum class Outcome : uint8_t {
    kVerified,
    kDamaged,
    kUnreadable,
    kGone,  // No longer on the disk.
    kBusy,  // The disk's queue was full, so it was not read; tried again later.
  };

  // Makes a scrub without a pass. REQUIRES: first_segment < segments.
  Scrub(const Options& options, absl::Time now);

  // Begins a requested pass now, at the segment where the previous pass stopped; breaks off a
  // regular pass. Returns false if a requested pass is running. REQUIRES: the rate is not 0.
  bool RequestPass(uint64_t bytes_per_second, absl::Time now);
  // Returns when Next() is to be called; InfiniteFuture: not before RequestPass().
  absl::Time due() const;
  // Returns the record to read now; nullopt: the pass has ended. Begins a pass if none is running.
  // REQUIRES: due() <= now; Done() was called for the previous record.
  std::optional<DiskEntry> Next(const RecordIndex& index, absl::Time now);
  // Records the result for the record that Next() gave. A pass requested meanwhile does not count
  // it, because it will reach that record itself.
  void Done(const DiskEntry& entry, Outcome outcome, absl::Time now);

  const ScrubReport& report() const { return report_; }

 private:
  void Begin(bool asked, uint64_t bytes_per_second, absl::Time now);

  const Options options_;
  ScrubPacer pacer_;
  ScrubReport report_;
  absl::Time next_pass_;
  uint32_t segment_;            // Segment being read, or the next one.
  bool listed_ = false;         // Whether `keys_` lists `segment_`.
  std::vector<BlockKey> keys_;  // Keys of the segment when its turn came, by offset.
  size_t next_key_ = 0;
  uint64_t reading_ = 0;  // Pass for which Next() gave the last record.
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_SCRUB_H_
