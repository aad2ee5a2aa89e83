#include "tier_host/host_shares.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace kvtier {

HostShares::HostShares(uint64_t slabs, size_t domains) : slabs_(slabs), domains_(domains) {
  KVT_CHECK(domains > 0);
  for (Domain& domain : domains_) domain.share = {.guaranteed = slabs / domains};
}

const HostShares::Domain& HostShares::DomainOf(DomainId domain) const {
  static const Domain kNobody;
  const auto at = static_cast<size_t>(domain);
  return at < domains_.size() ? domains_[at] : kNobody;
}

HostShares::Domain& HostShares::At(DomainId domain) {
  const auto at = static_cast<size_t>(domain);
  if (at >= domains_.size()) domains_.resize(at + 1);
  return domains_[at];
}

void HostShares::Divide(const std::map<DomainId, TierShare>& shares) {
  for (Domain& domain : domains_) domain.share = Domain().share;
  uint64_t guaranteed = 0;
  for (const auto& [domain, share] : shares) {
    At(domain).share = share;
    guaranteed += share.guaranteed;
  }
  KVT_CHECK(guaranteed <= slabs_);
}

void HostShares::Fix(DomainId domain) { At(domain).fixed = true; }

TierShare HostShares::Of(DomainId domain) const { return DomainOf(domain).share; }

std::vector<uint64_t> HostShares::AtFirst() const {
  std::vector<ShareClaim> claims;
  claims.reserve(domains_.size());
  for (const Domain& domain : domains_) {
    claims.push_back({.share = domain.share, .wanted = UINT64_MAX});
  }
  return FairShares(slabs_, claims);
}

uint64_t HostShares::HeldBy(DomainId domain, const HostTier& host) const {
  const SlotPool& slots = host.slots(domain);
  return slots.present_slabs() - slots.closed_slabs() + DomainOf(domain).incoming;
}

uint64_t HostShares::WantedBy(DomainId domain, const HostTier& host) const {
  const SlotPool& slots = host.slots(domain);
  const uint64_t used = slots.present_slabs() - slots.closed_slabs() - slots.free_slabs();
  if (HeldBy(domain, host) == used) return UINT64_MAX;
  return used + std::max<uint64_t>(1, used / kHeadroomDivisor);
}

std::vector<uint64_t> HostShares::Fair(const HostTier& host) const {
  uint64_t capacity = slabs_;
  for (size_t i = 0; i < host.domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (DomainOf(domain).fixed) capacity -= std::min(capacity, HeldBy(domain, host));
  }
  std::vector<ShareClaim> claims;
  uint64_t unguaranteed = capacity;
  for (size_t i = 0; i < host.domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (DomainOf(domain).fixed) {
      claims.push_back({});
      continue;
    }
    ShareClaim claim{.share = Of(domain), .wanted = WantedBy(domain, host)};
    claim.share.maximum = std::min<uint64_t>(claim.share.maximum, host.slots(domain).slab_count());
    // Domains that are fixed may have what others are guaranteed.
    claim.share.guaranteed = std::min({claim.share.guaranteed, claim.share.maximum, unguaranteed});
    unguaranteed -= claim.share.guaranteed;
    claims.push_back(claim);
  }
  std::vector<uint64_t> fair = FairShares(capacity, claims);
  for (size_t i = 0; i < fair.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (DomainOf(domain).fixed) fair[i] = HeldBy(domain, host);
  }
  return fair;
}

std::optional<SlabMove> HostShares::Next(const HostTier& host) const {
  const std::vector<uint64_t> fair = Fair(host);
  using Rank = std::pair<uint64_t, uint64_t>;  // The first of equal ones comes first.
  Rank most_short;
  Rank furthest_over;
  std::optional<DomainId> to;
  std::optional<DomainId> from;
  uint64_t present = between_;
  for (size_t i = 0; i < fair.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const uint64_t held = HeldBy(domain, host);
    present += host.slots(domain).present_slabs();
    if (held < fair[i]) {
      const uint64_t guaranteed = std::min(fair[i], Of(domain).guaranteed);
      const Rank rank{guaranteed - std::min(guaranteed, held), fair[i] - held};
      if (!to.has_value() || rank > most_short) {
        most_short = rank;
        to = domain;
      }
    } else if (held > fair[i] && DomainOf(domain).incoming == 0) {
      const Rank rank{host.slots(domain).free_slabs() > 0 ? 1 : 0, held - fair[i]};
      if (!from.has_value() || rank > furthest_over) {
        furthest_over = rank;
        from = domain;
      }
    }
  }
  if (!to.has_value()) return std::nullopt;
  if (present < slabs_) return SlabMove{.to = *to};
  return from.has_value() ? std::optional(SlabMove{.from = from, .to = *to}) : std::nullopt;
}

void HostShares::Begin(const SlabMove& move) {
  ++At(move.to).incoming;
  if (!move.from.has_value()) ++between_;
}

void HostShares::End(const SlabMove& move, Outcome outcome) {
  --At(move.to).incoming;
  if (outcome == Outcome::kMoved || !move.from.has_value()) --between_;
}

}  // namespace kvtier
