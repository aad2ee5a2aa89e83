// HostMemory is the tenant's host memory as one session was handed it: the same bytes, at
// the same offsets, mapped twice.
#ifndef KVTIER_CLIENT_HOST_MEMORY_H_
#define KVTIER_CLIENT_HOST_MEMORY_H_

#include <memory>

#include "client/mapping.h"

namespace kvtier {

struct HostMemory {
  // Leased blocks are read here: what OnboardedBlocks::bytes() points into.
  std::shared_ptr<const Mapping> read;
  // Reserved slots are written here. Null: the agent hands out none.
  std::shared_ptr<const Mapping> write;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_MEMORY_H_
