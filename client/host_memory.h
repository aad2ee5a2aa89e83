// HostMemory is the host memory that the agent handed to one session. In the agent's direct mode
// `read` and `write` are the tenant's arena, the same bytes at the same offsets, mapped twice. In
// its staged mode `write` is a region of the session's own, and `read` is the arena.
#ifndef KVTIER_CLIENT_HOST_MEMORY_H_
#define KVTIER_CLIENT_HOST_MEMORY_H_

#include <memory>

#include "client/mapping.h"

namespace kvtier {

struct HostMemory {
  // Memory in which leased blocks are read; OnboardedBlocks::bytes() points into it.
  std::shared_ptr<const Mapping> read;
  // Memory in which reserved slots are written. Null: the agent hands out none.
  std::shared_ptr<const Mapping> write;
  // Whether `write` is a region of the session's own, whose offsets are not those of `read`.
  bool is_staged = false;
  // Whether parts of the arena's memory come and go, so that no device may pin it.
  bool moves = false;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_HOST_MEMORY_H_
