// TierDivision computes the share of each tenant in each tier of the node, from the tenant's
// settings and the size of the tier, and hands the shares to the parts that apply them: host memory
// (HostShares), the disks, the GPUs' pools (GpuDivider), and the turns of calls and disks.
//
// Executor thread only.
#ifndef KVTIER_AGENT_FLOWS_TIER_DIVISION_H_
#define KVTIER_AGENT_FLOWS_TIER_DIVISION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/flows/node_flows.h"
#include "agent/flows/tenant_book.h"
#include "agent/gpu/gpu_divider.h"
#include "core/tier.h"
#include "core/tier_share.h"
#include "tier_host/host_shares.h"

namespace kvtier {

class TierDivision {
 public:
  // Parts of the agent that shares are handed to; not owned.
  struct Parts {
    NodeRooms rooms;
    NodeFlows* flows = nullptr;
    HostShares* host = nullptr;
    GpuDivider* gpus = nullptr;
  };
  TierDivision(const Parts& parts, uint64_t host_bytes, uint64_t slab_bytes)
      : parts_(parts), host_bytes_(host_bytes), slab_bytes_(slab_bytes) {}

  // Works out all shares from the settings in force, and hands them on.
  void Apply(const TenantBook& book);
  // Sets how much host memory all tenants have together. REQUIRES: Apply() follows.
  void SetHostSlabs(uint64_t slabs) { host_bytes_ = slabs * slab_bytes_; }
  uint64_t host_bytes() const { return host_bytes_; }
  // Returns the bytes of the tier that are divided; 0: the node has no such tier.
  uint64_t CapacityOf(Tier tier) const;
  // Returns the share of the tenant at place `i` of TenantTable::All().
  const TierShare& Of(Tier tier, size_t i) const { return shares_[TierIndex(tier)].at(i); }

 private:
  void DivideHost();
  void DivideDisks();
  // Divides the pools of GPUs between the tenants that have some; the others have no share of them.
  void DivideGpus(const TenantBook& book);
  // Lets tenants take turns by the weights of their shares: of host memory on the executor, of the
  // disks at the disks.
  void WeighTurns();

  const Parts parts_;
  uint64_t host_bytes_;  // Host memory of all tenants.
  const uint64_t slab_bytes_;
  std::array<std::vector<TierShare>, kTierCount> shares_;  // Shares of TenantTable::All().
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_FLOWS_TIER_DIVISION_H_
