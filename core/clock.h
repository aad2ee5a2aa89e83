// Clock is the time seam (law 9): monotone time for deadlines, leases and rates.
#ifndef KVTIER_CORE_CLOCK_H_
#define KVTIER_CORE_CLOCK_H_

#include "absl/time/time.h"

namespace kvtier {

// Clock tells the time since an origin that is unrelated to the date: CLOCK_MONOTONIC's on a real
// node, so that agent and workers of one node agree. Now() never goes back. Times never travel
// between nodes; durations do. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  absl::Time Now() const override;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_CLOCK_H_
