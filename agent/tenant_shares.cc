#include "agent/tenant_shares.h"

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

TenantShares::TenantShares(size_t limit, size_t domains)
    : limit_(limit),
      guarantee_(limit / kGuaranteedPart / domains),
      owed_(guarantee_ * domains),
      by_domain_(domains) {
  KVT_CHECK(guarantee_ > 0);
}

void TenantShares::Take(DomainId domain) {
  KVT_CHECK(MayTake(domain));
  if (by_domain_[static_cast<size_t>(domain)]++ < guarantee_) --owed_;
  ++taken_;
}

void TenantShares::GiveBack(DomainId domain) {
  KVT_CHECK(Taken(domain) > 0);
  if (--by_domain_[static_cast<size_t>(domain)] < guarantee_) ++owed_;
  --taken_;
}

absl::Status TenantShares::Refusal(absl::string_view things, DomainId domain) const {
  if (taken_ == limit_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(things, ": all ", limit_, " of the node are in use"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(things, ": the tenant has ", Taken(domain),
                                                   " of the node's ", limit_, ", and ",
                                                   limit_ - taken_, " are kept for other tenants"));
}

void TenantShares::Audit() const {
  size_t taken = 0;
  size_t owed = 0;
  for (const size_t each : by_domain_) {
    taken += each;
    owed += each < guarantee_ ? guarantee_ - each : 0;
  }
  KVT_CHECK(taken == taken_ && owed == owed_ && taken + owed <= limit_);
}

}  // namespace kvtier
