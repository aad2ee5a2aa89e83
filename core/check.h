// KVT_CHECK aborts on our own bugs, in every build. An error that comes from outside the program is
// an absl::Status, never a check.
#ifndef KVTIER_CORE_CHECK_H_
#define KVTIER_CORE_CHECK_H_

#include "absl/base/optimization.h"

namespace kvtier::check_internal {

// Prints "CHECK failed" with the place and the condition to stderr, then aborts.
[[noreturn]] void Fail(const char* file, int line, const char* condition);

}  // namespace kvtier::check_internal

#define KVT_CHECK(condition)                                          \
  do {                                                                \
    if (ABSL_PREDICT_FALSE(!(condition))) {                           \
      ::kvtier::check_internal::Fail(__FILE__, __LINE__, #condition); \
    }                                                                 \
  } while (false)

#endif  // KVTIER_CORE_CHECK_H_
