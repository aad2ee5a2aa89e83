// HostMemory is the host memory that one session was handed. In the agent's direct mode both are
// the tenant's arena, the same bytes at the same offsets, mapped twice; in its staged mode a region
// of the session's own is written, and the arena is read.
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
  // True: `write` is a region of the session's own, whose offsets are none of `read`.
  bool is_staged = false;
  // True: parts of the arena's memory come and go, so that no device may pin it.
  bool moves = false;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_MEMORY_H_
