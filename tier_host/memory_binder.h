// MemoryBinder places host memory on NUMA nodes: copies between a GPU and memory of another node
// cross the link between the processors, which is slower and which others use, too.
#ifndef KVTIER_TIER_HOST_MEMORY_BINDER_H_
#define KVTIER_TIER_HOST_MEMORY_BINDER_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"

namespace kvtier {

class MemoryBinder {
 public:
  virtual ~MemoryBinder() = default;
  // Moves the memory to the node; with several nodes, its pages are spread over them in turn. Where
  // a node has no room the kernel takes another. REQUIRES: `memory` begins at a page; `nodes` is
  // not empty. Errors: kInvalidArgument, naming the nodes: this machine lacks one; kUnavailable,
  // with the kernel's reason.
  virtual absl::Status Bind(std::span<std::byte> memory, std::span<const int> nodes) = 0;
};

// Asks the kernel, by mbind(2).
class SystemMemoryBinder final : public MemoryBinder {
 public:
  absl::Status Bind(std::span<std::byte> memory, std::span<const int> nodes) override;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_HOST_MEMORY_BINDER_H_
