// TierStats counts what one tier did: counters and latencies, one struct for all tiers. Read by
// the admin service, `kvtier tiers` and the tests.
#ifndef KVTIER_CORE_TIER_STATS_H_
#define KVTIER_CORE_TIER_STATS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace kvtier {

// Log-scale histogram of durations: 4 buckets an octave from 1 us to 67 s.
// Not thread-safe. Quantiles err by at most 19 % (one bucket).
class LatencyHistogram {
 public:
  void Record(absl::Duration latency);
  // Adds all that `other` recorded.
  void Add(const LatencyHistogram& other);
  uint64_t count() const { return count_; }
  // Returns the upper bound of the bucket that holds quantile `q` in [0, 1]; zero when empty.
  absl::Duration Quantile(double q) const;

 private:
  static constexpr size_t kBuckets = 104;
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
};

struct TierStats {
  uint64_t hits = 0;               // Blocks served from this tier.
  uint64_t misses = 0;             // Blocks asked of this tier and not served.
  uint64_t inserts = 0;            // Blocks published here.
  uint64_t evictions = 0;          // Blocks unpublished to make room.
  uint64_t declined = 0;           // Blocks refused because a queue or the tier was full.
  uint64_t bytes_in = 0;           // Bytes written into the tier.
  uint64_t bytes_out = 0;          // Bytes read from the tier to serve blocks.
  uint64_t verified = 0;           // Blocks whose checksum was proven.
  uint64_t verify_failures = 0;    // Blocks whose bytes were not theirs: missed, quarantined.
  uint64_t io_errors = 0;          // Failed reads and writes, short ones included.
  LatencyHistogram read_latency;   // Time of one block out of the tier.
  LatencyHistogram write_latency;  // Time of one block into it.
  // Sums every field: several disks are one tier.
  void Add(const TierStats& other);
};

}  // namespace kvtier

#endif  // KVTIER_CORE_TIER_STATS_H_
