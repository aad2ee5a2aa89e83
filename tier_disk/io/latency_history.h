// LatencyHistory knows how long one disk's I/Os usually take, by size. It forgets: older I/Os count
// less and less.
//
// Pure bookkeeping. Executor thread only.
#ifndef KVTIER_TIER_DISK_IO_LATENCY_HISTORY_H_
#define KVTIER_TIER_DISK_IO_LATENCY_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/time/time.h"

namespace kvtier {

// Number of I/Os of a size class before it has a usual latency.
inline constexpr uint32_t kHistoryMinIos = 64;
// Number of I/Os at which a class halves its counts: large enough that as many slow I/Os as make a
// disk slow (kSlowTooMany) do not shift the median.
inline constexpr uint32_t kHistoryMaxIos = 4096;

class LatencyHistory {
 public:
  void Add(uint64_t bytes, absl::Duration latency);
  // Returns the median latency of I/Os of about this size, at most 19 % (a quarter octave) above
  // the exact one. nullopt: fewer than kHistoryMinIos were seen.
  std::optional<absl::Duration> Median(uint64_t bytes) const;

 private:
  // Size classes: up to 4 KiB, 16 KiB, ... 16 MiB, and larger.
  static constexpr size_t kClasses = 8;
  // Four buckets for each octave, from 1 us to 67 s.
  static constexpr size_t kBuckets = 104;
  struct SizeClass {
    std::array<uint16_t, kBuckets> buckets{};
    uint32_t count = 0;
  };
  static size_t ClassOf(uint64_t bytes);

  std::array<SizeClass, kClasses> classes_{};
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_IO_LATENCY_HISTORY_H_
