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

void HostShares::Resize(uint64_t slabs, const std::map<DomainId, TierShare>& shares) {
  slabs_ = slabs;
  Divide(shares);
}

void HostShares::Fix(DomainId domain) { At(domain).fixed = true; }

TierShare HostShares::Of(DomainId domain) const { return DomainOf(domain).share; }

TierShare HostShares::InForce(DomainId domain, const HostTier& host) const {
  TierShare share = Of(domain);
  if (is_fixed(domain)) share.guaranteed = share.maximum = HeldBy(domain, host);
  return share;
}

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

template <typename Wanted>
std::vector<uint64_t> HostShares::Divided(const HostTier& host, Wanted wanted) const {
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
    ShareClaim claim{.share = Of(domain), .wanted = wanted(domain)};
    claim.share.maximum = std::min<uint64_t>(claim.share.maximum, host.slots(domain).slab_count());
    // Fixed domains may hold what others are guaranteed: guarantees are cut to what is left.
    claim.share.guaranteed = std::min({claim.share.guaranteed, claim.share.maximum, unguaranteed});
    unguaranteed -= claim.share.guaranteed;
    claims.push_back(claim);
  }
  std::vector<uint64_t> parts = FairShares(capacity, claims);
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (DomainOf(domain).fixed) parts[i] = HeldBy(domain, host);
  }
  return parts;
}

std::vector<uint64_t> HostShares::Fair(const HostTier& host) const {
  return Divided(host, [&](DomainId domain) { return WantedBy(domain, host); });
}

uint64_t HostShares::Present(const HostTier& host) const {
  uint64_t present = between_;
  for (size_t i = 0; i < host.domain_count(); ++i) {
    present += host.slots(static_cast<DomainId>(i)).present_slabs();
  }
  return present;
}

bool HostShares::IsSettled(const HostTier& host) const {
  return coming_ == 0 && leaving_ == 0 && Present(host) <= slabs_;
}

std::optional<DomainId> HostShares::Giver(const HostTier& host,
                                          const std::vector<uint64_t>& fair) const {
  using Rank = std::pair<uint64_t, uint64_t>;  // Has free slabs, excess; of equal ranks the first.
  Rank furthest_over;
  std::optional<DomainId> from;
  for (size_t i = 0; i < fair.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const uint64_t held = HeldBy(domain, host);
    if (held <= fair[i] || DomainOf(domain).incoming > 0) continue;
    const Rank rank{host.slots(domain).free_slabs() > 0 ? 1 : 0, held - fair[i]};
    if (!from.has_value() || rank > furthest_over) {
      furthest_over = rank;
      from = domain;
    }
  }
  return from;
}

std::optional<SlabMove> HostShares::Next(const HostTier& host) const {
  const std::vector<uint64_t> fair = Fair(host);
  using Rank = std::pair<uint64_t, uint64_t>;  // Lack of guarantee, of share; of equals the first.
  Rank most_short;
  std::optional<DomainId> to;
  for (size_t i = 0; i < fair.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const uint64_t held = HeldBy(domain, host);
    if (held >= fair[i]) continue;
    const uint64_t guaranteed = std::min(fair[i], Of(domain).guaranteed);
    const Rank rank{guaranteed - std::min(guaranteed, held), fair[i] - held};
    if (!to.has_value() || rank > most_short) {
      most_short = rank;
      to = domain;
    }
  }
  const std::optional<DomainId> from = Giver(host, fair);
  const bool lacks_guarantee = to.has_value() && most_short.first > 0;
  if (!lacks_guarantee && HasTooMany(host)) {
    return from.has_value() ? std::optional(SlabMove{.from = from}) : std::nullopt;
  }
  if (!to.has_value()) return NextBeyondMaximum(host);
  if (Present(host) < slabs_) return SlabMove{.to = to};
  return from.has_value() ? std::optional(SlabMove{.from = from, .to = to}) : std::nullopt;
}

std::optional<SlabMove> HostShares::NextBeyondMaximum(const HostTier& host) const {
  uint64_t furthest = 0;
  std::optional<DomainId> from;
  for (size_t i = 0; i < host.domain_count(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (DomainOf(domain).fixed || DomainOf(domain).incoming > 0) continue;
    const uint64_t held = HeldBy(domain, host);
    const uint64_t maximum = Of(domain).maximum;
    if (held <= maximum || held - maximum <= furthest) continue;
    furthest = held - maximum;
    from = domain;
  }
  if (!from.has_value()) return std::nullopt;
  return SlabMove{.from = from, .to = Neediest(host)};
}

bool HostShares::MayStay(DomainId domain, const HostTier& host) const {
  return Present(host) <= slabs_ && host.slots(domain).present_slabs() <= Of(domain).maximum;
}

std::optional<SlabMove> HostShares::NextToLeave(const HostTier& host) const {
  if (!HasTooMany(host)) return std::nullopt;
  const std::optional<DomainId> from = Giver(host, Fair(host));
  return from.has_value() ? std::optional(SlabMove{.from = from}) : std::nullopt;
}

std::optional<SlabMove> HostShares::NextToFill(const HostTier& host) const {
  if (Present(host) >= slabs_) return std::nullopt;
  const std::optional<DomainId> to = Neediest(host);
  return to.has_value() ? std::optional(SlabMove{.to = to}) : std::nullopt;
}

std::optional<DomainId> HostShares::Neediest(const HostTier& host) const {
  const std::vector<uint64_t> parts = Divided(host, [](DomainId) { return UINT64_MAX; });
  uint64_t most_short = 0;
  std::optional<DomainId> to;
  for (size_t i = 0; i < parts.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const uint64_t held = HeldBy(domain, host);
    if (held + most_short >= parts[i]) continue;
    most_short = parts[i] - held;
    to = domain;
  }
  return to;
}

void HostShares::Begin(const SlabMove& move) {
  KVT_CHECK(move.from.has_value() || move.to.has_value());
  if (move.to.has_value()) ++At(*move.to).incoming;
  if (!move.to.has_value()) ++leaving_;
  if (move.from.has_value()) return;
  ++between_;
  ++coming_;
}

void HostShares::End(const SlabMove& move, Outcome outcome) {
  if (move.to.has_value()) --At(*move.to).incoming;
  if (!move.to.has_value()) --leaving_;
  if (!move.from.has_value()) --coming_;
  if (outcome == Outcome::kMoved || !move.from.has_value()) --between_;
}

}  // namespace kvtier
