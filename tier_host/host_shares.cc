#include "tier_host/host_shares.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

absl::Status Check(const TierShare& share) {
  if (share.guaranteed > share.maximum) {
    return absl::InvalidArgumentError(absl::StrCat("guaranteed: ", share.guaranteed,
                                                   " slabs are more than the maximum of ",
                                                   share.maximum, " slabs"));
  }
  if (share.weight < 1 || share.weight > kMaxShareWeight) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight: ", share.weight, "; must be 1 to ", kMaxShareWeight));
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t HostShares::IncomingOf(DomainId domain) const {
  const auto incoming = incoming_.find(domain);
  return incoming == incoming_.end() ? 0 : incoming->second;
}

uint64_t HostShares::HeldBy(DomainId domain, const HostTier& host) const {
  const SlotPool& slots = host.slots(domain);
  return slots.present_slabs() - slots.closed_slabs() + IncomingOf(domain);
}

uint64_t HostShares::WantedBy(DomainId domain, const HostTier& host) const {
  const SlotPool& slots = host.slots(domain);
  const uint64_t used = slots.present_slabs() - slots.closed_slabs() - slots.free_slabs();
  if (HeldBy(domain, host) == used) return UINT64_MAX;
  return used + std::max<uint64_t>(1, used / kHeadroomDivisor);
}

HostShares::Setting& HostShares::At(DomainId domain) {
  const auto at = static_cast<size_t>(domain);
  if (at >= settings_.size()) settings_.resize(at + 1);
  return settings_[at];
}

uint64_t HostShares::Guaranteed() const {
  uint64_t guaranteed = 0;
  for (const Setting& setting : settings_) {
    if (setting.share.has_value()) guaranteed += setting.share->guaranteed;
  }
  return guaranteed;
}

absl::Status HostShares::Set(DomainId domain, std::optional<TierShare> share) {
  Setting& setting = At(domain);
  if (share.has_value()) {
    if (const absl::Status checked = Check(*share); !checked.ok()) return checked;
    const uint64_t others =
        Guaranteed() - (setting.share.has_value() ? setting.share->guaranteed : 0);
    if (share->guaranteed > slabs_ - others) {
      return absl::InvalidArgumentError(
          absl::StrCat("guaranteed: ", share->guaranteed, " slabs; of the node's ", slabs_,
                       " slabs of host memory others are guaranteed ", others));
    }
  }
  setting.share = share;
  return absl::OkStatus();
}

void HostShares::Fix(DomainId domain) { At(domain).fixed = true; }

absl::Status HostShares::Resize(uint64_t slabs) {
  if (slabs < Guaranteed()) {
    return absl::InvalidArgumentError(absl::StrCat(slabs, " slabs are fewer than the ",
                                                   Guaranteed(), " that tenants are guaranteed"));
  }
  slabs_ = slabs;
  return absl::OkStatus();
}

uint64_t HostShares::EqualPart(size_t domains) const {
  size_t unset = 0;
  for (size_t i = 0; i < domains; ++i) {
    if (!SettingOf(i).share.has_value()) ++unset;
  }
  return unset == 0 ? 0 : (slabs_ - Guaranteed()) / unset;
}

uint64_t HostShares::GuaranteedTo(DomainId domain, size_t domains) const {
  const std::optional<TierShare> share = SettingOf(static_cast<size_t>(domain)).share;
  return share.has_value() ? share->guaranteed : EqualPart(domains);
}

std::vector<TierShare> HostShares::Shares(size_t domains) const {
  const uint64_t part = EqualPart(domains);
  std::vector<TierShare> shares;
  shares.reserve(domains);
  for (size_t i = 0; i < domains; ++i) {
    shares.push_back(SettingOf(i).share.value_or(TierShare{.guaranteed = part}));
  }
  return shares;
}

std::vector<uint64_t> HostShares::AtFirst(size_t domains) const {
  std::vector<ShareClaim> claims;
  claims.reserve(domains);
  for (const TierShare& share : Shares(domains)) {
    claims.push_back({.share = share, .wanted = UINT64_MAX});
  }
  return FairShares(slabs_, claims);
}

std::vector<uint64_t> HostShares::Fair(const HostTier& host) const {
  const std::vector<TierShare> shares = Shares(host.domain_count());
  uint64_t capacity = slabs_;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (SettingOf(i).fixed) capacity -= std::min(capacity, HeldBy(domain, host));
  }
  std::vector<ShareClaim> claims;
  uint64_t unguaranteed = capacity;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    if (SettingOf(i).fixed) {
      claims.push_back({});
      continue;
    }
    ShareClaim claim{.share = shares[i], .wanted = WantedBy(domain, host)};
    claim.share.maximum = std::min<uint64_t>(claim.share.maximum, host.slots(domain).slab_count());
    // Domains that are fixed may have what others are guaranteed.
    claim.share.guaranteed = std::min({claim.share.guaranteed, claim.share.maximum, unguaranteed});
    unguaranteed -= claim.share.guaranteed;
    claims.push_back(claim);
  }
  std::vector<uint64_t> fair = FairShares(capacity, claims);
  for (size_t i = 0; i < shares.size(); ++i) {
    if (SettingOf(i).fixed) fair[i] = HeldBy(static_cast<DomainId>(i), host);
  }
  return fair;
}

std::optional<SlabMove> HostShares::Next(const HostTier& host) const {
  const std::vector<uint64_t> fair = Fair(host);
  const std::vector<TierShare> shares = Shares(fair.size());
  using Rank = std::pair<uint64_t, uint64_t>;  // The first of equal ones comes first.
  Rank most_short;
  Rank furthest_over;
  SlabMove move;
  uint64_t present = between_;
  uint64_t held_by_all = 0;
  for (size_t i = 0; i < fair.size(); ++i) {
    const auto domain = static_cast<DomainId>(i);
    const uint64_t held = HeldBy(domain, host);
    held_by_all += held;
    present += host.slots(domain).present_slabs();
    if (held < fair[i]) {
      const uint64_t guaranteed = std::min(fair[i], shares[i].guaranteed);
      const Rank rank{guaranteed - std::min(guaranteed, held), fair[i] - held};
      if (!move.to.has_value() || rank > most_short) {
        most_short = rank;
        move.to = domain;
      }
    } else if (held > fair[i] && IncomingOf(domain) == 0) {
      const Rank rank{host.slots(domain).free_slabs() > 0 ? 1 : 0, held - fair[i]};
      if (!move.from.has_value() || rank > furthest_over) {
        furthest_over = rank;
        move.from = domain;
      }
    }
  }
  if (held_by_all > slabs_) {
    move.to.reset();
  } else if (!move.to.has_value()) {
    return std::nullopt;
  } else if (present < slabs_) {
    return SlabMove{.to = move.to};
  }
  return move.from.has_value() ? std::optional(move) : std::nullopt;
}

void HostShares::Begin(const SlabMove& move) {
  if (move.to.has_value()) ++incoming_[*move.to];
  if (!move.from.has_value()) ++between_;
}

void HostShares::End(const SlabMove& move, Outcome outcome) {
  if (move.to.has_value()) --incoming_.at(*move.to);
  if (outcome == Outcome::kMoved || !move.from.has_value()) --between_;
}

}  // namespace kvtier
