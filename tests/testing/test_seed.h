// TestSeed gives a randomised test its seed and prints it, so that a failure can be run again:
// KVTIER_TEST_SEED=<seed> <test binary>.
#ifndef KVTIER_TESTS_TESTING_TEST_SEED_H_
#define KVTIER_TESTS_TESTING_TEST_SEED_H_

#include <cstdint>
#include <cstdio>
#include <random>

#include "tests/testing/from_environment.h"

namespace kvtier::testing {

// Returns KVTIER_TEST_SEED if it is set, otherwise a new seed for each run.
inline uint64_t TestSeed() {
  const uint64_t seed = FromEnvironment("KVTIER_TEST_SEED", std::random_device{}());
  std::printf("KVTIER_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_TEST_SEED_H_
