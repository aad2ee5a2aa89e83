// Backoff says how long to wait before the next try at something that keeps
// failing: doubling from a minimum to a maximum, with jitter, so that the workers
// of a node do not all come back to their agent in the same millisecond.
//
// Pure: the caller brings the randomness and does the waiting. Not thread-safe.
#ifndef KVTIER_CLIENT_BACKOFF_H_
#define KVTIER_CLIENT_BACKOFF_H_

#include <algorithm>

#include "absl/time/time.h"

namespace kvtier {

class Backoff {
 public:
  // REQUIRES: 0 < min <= max.
  Backoff(absl::Duration min, absl::Duration max) : min_(min), max_(max), next_(min) {}

  // Returns the wait before the next try and doubles the one after it. `jitter` in [0, 1)
  // places the wait in the upper half: [full / 2, full).
  absl::Duration Next(double jitter) {
    const absl::Duration full = next_;
    next_ = std::min(next_ * 2, max_);
    return full * (0.5 + 0.5 * jitter);
  }
  // Makes the next wait short again, after a success.
  void Reset() { next_ = min_; }

 private:
  absl::Duration min_;
  absl::Duration max_;
  absl::Duration next_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BACKOFF_H_
