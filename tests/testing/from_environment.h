// FromEnvironment lets one test run at several lengths: short in scripts/test, long in
// scripts/test-long.
#ifndef KVTIER_TESTS_TESTING_FROM_ENVIRONMENT_H_
#define KVTIER_TESTS_TESTING_FROM_ENVIRONMENT_H_

#include <cstdint>
#include <cstdlib>

namespace kvtier::testing {

// Returns the number that the variable holds; `otherwise` if it is not set.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::strtoull(given, nullptr, 10);
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_FROM_ENVIRONMENT_H_
