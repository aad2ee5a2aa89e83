#include "core/scrub_pacer.h"

#include <algorithm>

#include "core/check.h"

namespace kvtier {

void ScrubPacer::SetRate(uint64_t bytes_per_second, absl::Time now) {
  KVT_CHECK(bytes_per_second > 0);
  bytes_per_second_ = bytes_per_second;
  ready_ = now;
}

void ScrubPacer::Spend(uint64_t bytes, absl::Time now) {
  const double seconds = static_cast<double>(bytes) / static_cast<double>(bytes_per_second_);
  ready_ = std::max(ready_, now - kScrubBurst) + absl::Seconds(seconds);
}

void ScrubPacer::NotBefore(absl::Time when) { ready_ = std::max(ready_, when); }

}  // namespace kvtier
