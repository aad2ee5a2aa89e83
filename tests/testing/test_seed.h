// TestSeed gives a randomised test its seed and says it, so that a failure can be
// run again: KVTIER_TEST_SEED=<seed> <test binary>.
#ifndef KVTIER_TESTS_TESTING_TEST_SEED_H_
#define KVTIER_TESTS_TESTING_TEST_SEED_H_

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace kvtier::testing {

// KVTIER_TEST_SEED where it is set, otherwise a new one each run.
inline uint64_t TestSeed() {
  const char* const given = std::getenv("KVTIER_TEST_SEED");
  const uint64_t seed =
      given != nullptr ? std::strtoull(given, nullptr, 10) : uint64_t{std::random_device{}()};
  std::printf("KVTIER_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_TEST_SEED_H_
