// TenantShares divides a limited number of things (sessions, leases, reservations, loads
// that wait) between the
// tenants of the node. Half of them are guaranteed: as many to each tenant. The other half, and
// what guarantees leave unused, is whoever's comes first; but what is free always covers the
// guarantees that are not used up. So one tenant may take nearly all while others want little, and
// none can refuse another its guarantee, not even for a moment.
//
// Pure bookkeeping, O(1). Executor thread only. Invariant, checked by Audit(): what is taken and
// what is still owed to guarantees fit into the limit.
#ifndef KVTIER_AGENT_TENANT_SHARES_H_
#define KVTIER_AGENT_TENANT_SHARES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class TenantShares {
 public:
  // One in so many of the limit is guaranteed.
  static constexpr size_t kGuaranteedPart = 2;

  // `domains` is the number of tenants. REQUIRES: limit >= kGuaranteedPart * domains > 0.
  TenantShares(size_t limit, size_t domains);

  // Returns whether the tenant may take one more.
  bool MayTake(DomainId domain) const {
    return Taken(domain) < guarantee_ || limit_ - taken_ > owed_;
  }
  // Takes one. REQUIRES: MayTake().
  void Take(DomainId domain);
  // Gives one back. REQUIRES: the tenant has one.
  void GiveBack(DomainId domain);
  // Returns the error of a tenant that may take no more of `things` ("leases").
  absl::Status Refusal(absl::string_view things, DomainId domain) const;

  size_t taken() const { return taken_; }
  size_t Taken(DomainId domain) const { return by_domain_.at(static_cast<size_t>(domain)); }
  size_t limit() const { return limit_; }
  size_t guarantee() const { return guarantee_; }  // Of each tenant.
  void Audit() const;

 private:
  const size_t limit_;
  const size_t guarantee_;
  size_t taken_ = 0;
  size_t owed_;  // Sum over the tenants of what is left of their guarantees.
  std::vector<size_t> by_domain_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_TENANT_SHARES_H_
