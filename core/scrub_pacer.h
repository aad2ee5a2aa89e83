// ScrubPacer says when the next read of a scrub may begin so that, over any time, no
// more is read than the rate allows plus one burst and one record: a token bucket that
// may go into debt, since a record is read whole or not at all.
//
// The bucket is stored as the one moment at which it is out of debt: tokens(t) = (t - ready) *
// rate, with those of kScrubBurst at most. Pure: the caller passes the time.
#ifndef KVTIER_CORE_SCRUB_PACER_H_
#define KVTIER_CORE_SCRUB_PACER_H_

#include <cstdint>

#include "absl/time/time.h"

namespace kvtier {

// Maximum lag that may be caught up at once after a slow read or a busy executor.
inline constexpr absl::Duration kScrubBurst = absl::Milliseconds(250);

class ScrubPacer {
 public:
  // Sets the rate from `now` on, and forgets earlier debts. REQUIRES: the rate is not 0.
  void SetRate(uint64_t bytes_per_second, absl::Time now);
  // Returns the time from which on the next read may begin.
  absl::Time ready() const { return ready_; }
  // Notes that a read of `bytes` begins now.
  void Spend(uint64_t bytes, absl::Time now);
  void NotBefore(absl::Time when);

 private:
  uint64_t bytes_per_second_ = 1;
  absl::Time ready_ = absl::InfinitePast();
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SCRUB_PACER_H_
