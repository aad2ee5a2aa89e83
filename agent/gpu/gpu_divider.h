// GpuDivider divides the memory of each GPU of the node between the tenants that have pools there.
// Each pool is to have the fair share (core/tier_share.h) that its tenant has when all tenants want
// everything. When shares change, pools that are too large shrink, as workers let go of what
// leaves, and the others grow as memory comes free. All pools of a GPU together never have more
// than its memory for pools.
//
// Memory that a tenant does not use of its part is not lent to others. Workers map the pools, and
// the device gets a handle's memory back only after each of them has unmapped it, so a tenant whose
// workers keep the handle could not be made to give it back in time.
//
// Where one tenant has all pools there is nothing to divide, and an operator sets their size
// (GpuResizer).
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_DIVIDER_H_
#define KVTIER_AGENT_GPU_GPU_DIVIDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "agent/gpu/node_gpus.h"
#include "core/block_key.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/tier_share.h"
#include "core/waits.h"

namespace kvtier {

class GpuDivider {
 public:
  // Parts are objects that the divider uses and does not own.
  struct Parts {
    Executor* executor = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    NodeGpus* gpus = nullptr;
  };
  // `bytes` is the memory of each GPU for its pools.
  GpuDivider(const Parts& parts, uint64_t bytes) : parts_(parts), bytes_(bytes) {}

  // Returns whether several tenants have pools.
  bool divides() const { return parts_.gpus->tenants().size() > 1; }
  // Returns the bytes that the pools of all GPUs divide, or those that they have if one tenant has
  // all pools.
  uint64_t bytes() const;
  // Begins to bring the pools to these shares, in bytes of all GPUs together. REQUIRES: each tenant
  // that has pools is named; the guarantees fit into bytes().
  void Divide(const std::map<DomainId, TierShare>& shares);
  // Returns the bytes that the tenant's pools are to have; 0: it has none.
  uint64_t PartOf(DomainId domain) const;

 private:
  // Changes sizes until each pool has its part.
  Task<void> Run();
  // Begins the changes that can begin; returns false if each pool has its part.
  bool Step();
  // Does the same for the pools of one GPU, the first of which is NodeGpus::at(first).
  bool StepOn(size_t first);
  size_t devices() const { return parts_.gpus->size() / parts_.gpus->tenants().size(); }

  const Parts parts_;
  const uint64_t bytes_;
  std::vector<uint64_t> handles_;  // Handles that each tenant's pool on each GPU is to have.
  bool running_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_DIVIDER_H_
