// Arrival says why a block comes into a tier. With it the order of eviction decides whether the
// arrival counts as a use, and counts that use only once.
#ifndef KVTIER_CORE_ARRIVAL_H_
#define KVTIER_CORE_ARRIVAL_H_

#include <cstdint>

namespace kvtier {

enum class Arrival : uint8_t {
  kComputed,    // A worker put it there.
  kAskedFor,    // It was loaded from a tier below for a worker that waits, whose Touch() is to come
                // and is the same use.
  kPrefetched,  // It was brought, and no worker waits for it.
  kFromPeer,    // It was copied from another node for a worker that waits.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_ARRIVAL_H_
