// NumberedKey names blocks by numbers where a test or a benchmark needs keys alone.
#ifndef KVTIER_TESTS_TESTING_NUMBERED_KEY_H_
#define KVTIER_TESTS_TESTING_NUMBERED_KEY_H_

#include <cstdint>

#include "core/block_key.h"
#include "core/peer_name.h"

namespace kvtier::testing {

// Returns the name that the default tenant's engine gets for the number: both halves are as good as
// random, as hash tables expect. Takes under 1 us. Thread-safe.
inline BlockKey NumberedKey(uint64_t number) {
  static const BlockNamer namer(TenantKey::FromSecret(""), SpaceDigest());
  return namer.Name(EngineKey({reinterpret_cast<const char*>(&number), sizeof(number)}));
}

// Returns such a name outside a node; no key leads to it.
inline PeerName NumberedName(uint64_t number) {
  const BlockKey key = NumberedKey(number);
  return {.hi = key.hi, .lo = key.lo};
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_NUMBERED_KEY_H_
