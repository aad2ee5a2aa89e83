// StillClock is a clock that stands still until a test moves it.
#ifndef KVTIER_TESTS_TESTING_STILL_CLOCK_H_
#define KVTIER_TESTS_TESTING_STILL_CLOCK_H_

#include "absl/time/time.h"
#include "core/clock.h"

namespace kvtier::testing {

class StillClock final : public Clock {
 public:
  absl::Time Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_STILL_CLOCK_H_
