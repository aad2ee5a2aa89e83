// SimRandom draws the chances of a simulated world: the same seed gives the same draws on every
// machine, which std::uniform_*_distribution does not promise.
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
  // Returns a number that is uniform in [0, bound), with a bias below bound / 2^64. REQUIRES: bound
  // > 0.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  // Returns true with probability `chance`; draws nothing when that is 0.
  bool Draw(double chance) {
    // A double holds 53 bits exactly.
    return chance > 0 && static_cast<double>(random_() >> 11) * 0x1p-53 < chance;
  }
  // Returns a time that is uniform in [low, high), in whole nanoseconds. REQUIRES: low < high.
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    const auto width = static_cast<uint64_t>(absl::ToInt64Nanoseconds(high - low));
    return low + absl::Nanoseconds(static_cast<int64_t>(Below(width)));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_SIM_RANDOM_H_
