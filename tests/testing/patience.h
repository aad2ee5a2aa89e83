// Times for which tests wait, and lateness that they forgive. A sanitized build is a few times
// slower, and KVTIER_TEST_PATIENCE is a factor for a busy machine.
#ifndef KVTIER_TESTS_TESTING_PATIENCE_H_
#define KVTIER_TESTS_TESTING_PATIENCE_H_

#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace kvtier::testing {

#if defined(KVTIER_ASAN) || defined(KVTIER_TSAN)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline double PatienceFactor() {
  const char* const given = std::getenv("KVTIER_TEST_PATIENCE");
  return (kSanitized ? 4 : 1) * (given == nullptr ? 1 : std::strtod(given, nullptr));
}

// Returns the bound for this build and machine, where `limit` is that of a quick build on a quiet
// machine.
inline absl::Duration Patience(absl::Duration limit) { return limit * PatienceFactor(); }

// Returns the time by which a call may end after its deadline, because threads must wake on a busy
// machine, too. It is ten times what a quiet one needs.
inline absl::Duration Slack() { return Patience(absl::Seconds(1)); }

// Calls `condition` until it holds; false: it did not within `limit`. For changes in another
// process that the test cannot wait for in another way. A line says that the wait was in vain, by
// which scripts/late.py tells a late test from a wrong one.
template <typename Condition>
bool Await(absl::Duration limit, Condition condition,
           std::source_location caller = std::source_location::current()) {
  const absl::Time deadline = absl::Now() + Patience(limit);
  while (!condition()) {
    if (absl::Now() > deadline) {
      std::printf("[  LATE    ] %s:%u: waited %s in vain\n", caller.file_name(),
                  static_cast<unsigned>(caller.line()),
                  absl::FormatDuration(Patience(limit)).c_str());
      return false;
    }
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_PATIENCE_H_
