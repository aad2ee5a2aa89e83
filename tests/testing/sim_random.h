// SimRandom is where a simulated world takes its chances: the same seed gives the
// same draws on every machine (std::uniform_*_distribution promises no such thing).
#ifndef KVTIER_TESTS_TESTING_SIM_RANDOM_H_
#define KVTIER_TESTS_TESTING_SIM_RANDOM_H_

#include <cstdint>
#include <random>

#include "absl/time/time.h"

namespace kvtier::testing {

class SimRandom {
 public:
  explicit SimRandom(uint64_t seed) : random_(seed) {}
  uint64_t Next() { return random_(); }
  // Uniform in [0, bound), but for a bias under bound / 2^64. REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  // True with probability `chance`; draws nothing when that is 0.
  bool Draw(double chance) {
    // 53 bits: exact in a double.
    return chance > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < chance;
  }
  // Uniform in [low, high), in whole nanoseconds. REQUIRES: low < high.
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const auto width = static_cast<uint64_t>(absl::ToInt64Nanoseconds(high - low));
    return low + absl::Nanoseconds(static_cast<int64_t>(Below(width)));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_RANDOM_H_
