#include "core/clock.h"

#include <time.h>

namespace kvtier {

absl::Time MonotonicClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::UnixEpoch() + absl::DurationFromTimespec(now);
}

}  // namespace kvtier
