// TenantShares divides a limited number of things (sessions, leases, reservations, loads that wait,
// bytes of calls) between the tenants of the node. Half of them are guaranteed: the same number to
// each tenant. The other half, and what guarantees leave unused, goes to the tenant that comes
// first. But the free things always cover the guarantees that are not used up. So one tenant may
// take nearly all while others want little, and none can refuse another its guarantee, not even for
// a moment.
//
// Tenants come and go. A new tenant is guaranteed as much as the others, but at first only things
// that are free and guaranteed to no other tenant. If others have taken more, its guarantee grows
// as they give back, before any tenant may take these things again. A tenant that leaves is
// guaranteed nothing, and gives back what it has.
//
// Pure bookkeeping; O(1), but for tenants that come and go: O(tenants). Executor thread only.
// Invariants, checked by Audit(): what is taken and what is still owed to guarantees fit into the
// limit; while a guarantee is short of guarantee(), nothing is free that is not owed.
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
  // Part of the limit that is guaranteed: one in this many.
  static constexpr size_t kGuaranteedPart = 2;

  // `domains` is the number of tenants. REQUIRES: limit >= kGuaranteedPart * domains > 0.
  TenantShares(size_t limit, size_t domains);

  // Adds a tenant, whose domain is the next one. REQUIRES: the limit is large enough for one tenant
  // more, as the constructor says.
  void AddDomain();
  // Guarantees the tenant nothing any more, and the others more. REQUIRES: it was not dropped yet.
  void DropDomain(DomainId domain);

  // Returns whether the tenant may take `amount` more, all at once.
  bool MayTake(DomainId domain, size_t amount = 1) const {
    const size_t owed = ClaimOf(domain).Owed();
    return amount <= owed || amount - owed <= Unowed();
  }
  // Takes `amount` things. REQUIRES: MayTake().
  void Take(DomainId domain, size_t amount = 1);
  // Gives `amount` things back. REQUIRES: the tenant has them.
  void GiveBack(DomainId domain, size_t amount = 1);
  // Counts a refusal, and returns the error, which names `things` (such as "leases"). REQUIRES: the
  // tenant may not take what it asked for.
  absl::Status Refuse(absl::string_view things, DomainId domain);
  // Counts a refusal whose error the caller makes.
  void CountRefused(DomainId domain) { ++ClaimOf(domain).refused; }

  size_t taken() const { return taken_; }
  size_t Taken(DomainId domain) const { return ClaimOf(domain).taken; }
  // Returns how often the tenant was refused.
  uint64_t Refused(DomainId domain) const { return ClaimOf(domain).refused; }
  size_t limit() const { return limit_; }
  // Returns the guarantee that each tenant has, or gets once others have given enough back.
  size_t guarantee() const { return guarantee_; }
  // Returns what the tenant is guaranteed now.
  size_t Guarantee(DomainId domain) const { return ClaimOf(domain).guarantee; }
  void Audit() const;

 private:
  struct Claim {
    size_t taken = 0;
    size_t guarantee = 0;  // guarantee_; less while it grows, 0 once the tenant was dropped.
    uint64_t refused = 0;
    bool dropped = false;
    size_t Owed() const { return taken < guarantee ? guarantee - taken : 0; }
  };
  const Claim& ClaimOf(DomainId domain) const { return claims_.at(static_cast<size_t>(domain)); }
  Claim& ClaimOf(DomainId domain) { return claims_.at(static_cast<size_t>(domain)); }
  // Returns how many are free and owed to nobody.
  size_t Unowed() const { return limit_ - taken_ - owed_; }
  // Works out guarantee_ for the tenants that there are, and lets guarantees grow into it.
  void Divide();
  // Lets the guarantees that are short grow by what is owed to nobody, the last of `short_` first.
  void Grow();

  const size_t limit_;
  size_t domains_;  // Number of domains that were not dropped.
  size_t guarantee_ = 0;
  size_t taken_ = 0;
  size_t owed_ = 0;            // Sum over the tenants of what is left of their guarantees.
  std::vector<Claim> claims_;  // Claims by domain.
  std::vector<size_t> short_;  // Domains whose guarantee is to grow, the next one last.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_TENANT_SHARES_H_
