// NumberedKey names blocks by numbers where a test needs keys alone.
#ifndef KVTIER_TESTS_TESTING_NUMBERED_KEY_H_
#define KVTIER_TESTS_TESTING_NUMBERED_KEY_H_

#include <cstdint>

#include "core/block_key.h"

namespace kvtier::testing {

// Returns the key of the number, which is its upper half; the lower half is mixed, as hash tables
// and DepartedBlocks expect.
inline BlockKey NumberedKey(uint64_t number) {
  return {.hi = number, .lo = (number + 1) * 0x9e3779b97f4a7c15};
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_NUMBERED_KEY_H_
