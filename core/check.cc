#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace kvtier::check_internal {

void Fail(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace kvtier::check_internal
