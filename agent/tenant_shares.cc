#include "agent/tenant_shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier {

TenantShares::TenantShares(size_t limit, size_t domains)
    : limit_(limit), domains_(domains), claims_(domains) {
  KVT_CHECK(domains > 0);
  Divide();
}

void TenantShares::AddDomain() {
  ++domains_;
  claims_.emplace_back();
  Divide();
}

void TenantShares::DropDomain(DomainId domain) {
  Claim& claim = ClaimOf(domain);
  KVT_CHECK(!claim.dropped);
  claim.dropped = true;
  claim.guarantee = 0;
  --domains_;
  Divide();
}

void TenantShares::Divide() {
  // When the last tenant goes, none is left to divide the limit for.
  if (domains_ > 0) guarantee_ = limit_ / kGuaranteedPart / domains_;
  KVT_CHECK(guarantee_ > 0);
  owed_ = 0;
  short_.clear();
  for (size_t domain = claims_.size(); domain-- > 0;) {
    Claim& claim = claims_[domain];
    claim.guarantee = std::min(claim.guarantee, guarantee_);
    owed_ += claim.Owed();
    if (!claim.dropped && claim.guarantee < guarantee_) short_.push_back(domain);
  }
  Grow();
}

void TenantShares::Grow() {
  while (!short_.empty()) {
    Claim& claim = claims_[short_.back()];
    // The part beyond its guarantee becomes guaranteed, and nothing more is owed for it.
    claim.guarantee = std::min(guarantee_, std::max(claim.guarantee, claim.taken));
    const size_t more = std::min(Unowed(), guarantee_ - claim.guarantee);
    claim.guarantee += more;
    owed_ += more;
    if (claim.guarantee < guarantee_) return;
    short_.pop_back();
  }
}

void TenantShares::Take(DomainId domain, size_t amount) {
  KVT_CHECK(MayTake(domain, amount));
  Claim& claim = ClaimOf(domain);
  owed_ -= std::min(amount, claim.Owed());
  claim.taken += amount;
  taken_ += amount;
}

void TenantShares::GiveBack(DomainId domain, size_t amount) {
  Claim& claim = ClaimOf(domain);
  KVT_CHECK(claim.taken >= amount);
  const size_t owed = claim.Owed();
  claim.taken -= amount;
  owed_ += claim.Owed() - owed;
  taken_ -= amount;
  if (!short_.empty()) Grow();
}

absl::Status TenantShares::Refuse(absl::string_view things, DomainId domain) {
  CountRefused(domain);
  if (taken_ == limit_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        things, ": all ", limit_, " of the node are in use; release some, or try again later"));
  }
  return absl::ResourceExhaustedError(absl::StrCat(things, ": the tenant has ", Taken(domain),
                                                   " of the node's ", limit_,
                                                   ", and the free ones are "
                                                   "kept for other tenants; release some"));
}

void TenantShares::Audit() const {
  size_t taken = 0;
  size_t owed = 0;
  size_t lacking = 0;
  for (const Claim& claim : claims_) {
    taken += claim.taken;
    owed += claim.Owed();
    KVT_CHECK(claim.guarantee <= (claim.dropped ? 0 : guarantee_));
    if (!claim.dropped && claim.guarantee < guarantee_) ++lacking;
  }
  KVT_CHECK(taken == taken_ && owed == owed_ && taken + owed <= limit_);
  KVT_CHECK(lacking == short_.size() && (lacking == 0 || Unowed() == 0));
}

}  // namespace kvtier
