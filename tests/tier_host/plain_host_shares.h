// PlainHostShares says what HostShares should answer, in time that does not matter: it hands out
// one slab at a time, and lists all moves that may be next.
#ifndef KVTIER_TESTS_TIER_HOST_PLAIN_HOST_SHARES_H_
#define KVTIER_TESTS_TIER_HOST_PLAIN_HOST_SHARES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tier_share.h"
#include "tests/testing/shares_one_by_one.h"
#include "tier_host/host_shares.h"

namespace kvtier::testing {

constexpr uint64_t kMaxModelSlabs = 24;  // Slabs that a domain's memory has at most.

using Moves = std::vector<std::optional<SlabMove>>;

// Moving is a move that has begun.
struct Moving {
  SlabMove move;
  uint32_t slab = 0;        // Slab that leaves the domain.
  bool is_between = false;  // Whether no domain has the slab.
};

// PlainDomain is what the reference knows of a domain.
struct PlainDomain {
  TierShare share{.maximum = 0};
  bool is_fixed = false;
  uint64_t open = 0;      // Slabs that it has and that are not about to leave.
  uint64_t used = 0;      // Slabs of these with a block.
  uint64_t closed = 0;    // Slabs that are about to leave.
  uint64_t incoming = 0;  // Slabs on their way to it.

  uint64_t held() const { return open + incoming; }
  uint64_t wanted() const {
    if (held() == used) return UINT64_MAX;
    return used + std::max<uint64_t>(1, used / 8);
  }
};

struct PlainHostShares {
  uint64_t slabs = 0;
  std::vector<PlainDomain> domains;
  std::vector<Moving> moving;

  uint64_t Present() const {
    auto present = static_cast<uint64_t>(std::ranges::count(moving, true, &Moving::is_between));
    for (const PlainDomain& domain : domains) present += domain.open + domain.closed;
    return present;
  }
  bool HasTooMany() const {
    const auto leaves = [](const Moving& one) { return !one.move.to.has_value(); };
    return Present() > slabs + static_cast<uint64_t>(std::ranges::count_if(moving, leaves));
  }

  // Hands out all slabs but those of fixed domains, one after the other. Guarantees are cut, in the
  // order of the domains, to what fixed domains leave.
  enum class Want : uint8_t { kNow, kAll };
  std::vector<uint64_t> Fair(Want want) const {
    uint64_t capacity = slabs;
    for (const PlainDomain& domain : domains) {
      if (domain.is_fixed) capacity -= std::min(capacity, domain.held());
    }
    uint64_t unguaranteed = capacity;
    std::vector<ShareClaim> claims;
    for (const PlainDomain& domain : domains) {
      ShareClaim& claim = claims.emplace_back();
      if (domain.is_fixed) continue;
      claim = {.share = domain.share, .wanted = want == Want::kAll ? UINT64_MAX : domain.wanted()};
      claim.share.maximum = std::min(claim.share.maximum, kMaxModelSlabs);
      claim.share.guaranteed =
          std::min({claim.share.guaranteed, claim.share.maximum, unguaranteed});
      unguaranteed -= claim.share.guaranteed;
    }
    std::vector<uint64_t> fair = SharesOneByOne(capacity, claims);
    for (size_t i = 0; i < domains.size(); ++i) {
      if (domains[i].is_fixed) fair[i] = domains[i].held();
    }
    return fair;
  }

  // Domains of the highest rank, and whether the first of them lacks some of its guarantee.
  struct Ranked {
    std::pair<uint64_t, uint64_t> rank;
    std::vector<DomainId> domains;

    void Add(size_t domain, const std::pair<uint64_t, uint64_t>& its) {
      if (!domains.empty() && its < rank) return;
      if (its > rank) domains.clear();
      rank = its;
      domains.push_back(static_cast<DomainId>(domain));
    }
  };
  // Returns the domains that lack most of their guarantees, or else of their fair shares.
  Ranked Getters(const std::vector<uint64_t>& fair) const {
    Ranked getters;
    for (size_t i = 0; i < domains.size(); ++i) {
      const uint64_t held = domains[i].held();
      if (held >= fair[i]) continue;
      const uint64_t guaranteed = std::min(fair[i], domains[i].share.guaranteed);
      getters.Add(i, {guaranteed - std::min(guaranteed, held), fair[i] - held});
    }
    return getters;
  }
  // Returns the domains beyond their fair shares with a free slab, or else those furthest beyond.
  Ranked Givers(const std::vector<uint64_t>& fair) const {
    Ranked givers;
    for (size_t i = 0; i < domains.size(); ++i) {
      const PlainDomain& domain = domains[i];
      if (domain.held() <= fair[i] || domain.incoming > 0) continue;
      givers.Add(i, {domain.open > domain.used ? 1 : 0, domain.held() - fair[i]});
    }
    return givers;
  }
  std::vector<DomainId> BeyondMaximum() const {
    std::vector<DomainId> beyond;
    for (size_t i = 0; i < domains.size(); ++i) {
      const PlainDomain& domain = domains[i];
      if (domain.is_fixed || domain.incoming > 0) continue;
      if (domain.held() > domain.share.maximum) beyond.push_back(static_cast<DomainId>(i));
    }
    return beyond;
  }

  static Moves OrNone(Moves moves) {
    if (moves.empty()) moves.push_back(std::nullopt);
    return moves;
  }
  static Moves LeavesFrom(const std::vector<DomainId>& givers) {
    Moves moves;
    for (const DomainId from : givers) moves.push_back(SlabMove{.from = from});
    return OrNone(std::move(moves));
  }

  // Returns the moves of which any may be Next().
  Moves Next() const {
    const std::vector<uint64_t> fair = Fair(Want::kNow);
    const Ranked getters = Getters(fair);
    const Ranked givers = Givers(fair);
    const bool lacks_guarantee = !getters.domains.empty() && getters.rank.first > 0;
    if (!lacks_guarantee && HasTooMany()) return LeavesFrom(givers.domains);
    if (getters.domains.empty()) return NextBeyondMaximum();
    Moves moves;
    for (const DomainId to : getters.domains) {
      if (Present() < slabs) {
        moves.push_back(SlabMove{.to = to});
        continue;
      }
      for (const DomainId from : givers.domains) moves.push_back(SlabMove{.from = from, .to = to});
    }
    return OrNone(std::move(moves));
  }
  Moves NextToLeave() const {
    if (!HasTooMany()) return {std::nullopt};
    return LeavesFrom(Givers(Fair(Want::kNow)).domains);
  }
  // Memory beyond a maximum goes to a domain that lacks most of what it may have, or to nobody.
  Moves NextBeyondMaximum() const {
    Moves moves;
    for (const DomainId from : BeyondMaximum()) {
      for (const DomainId to : Neediest()) moves.push_back(SlabMove{.from = from, .to = to});
      if (Neediest().empty()) moves.push_back(SlabMove{.from = from});
    }
    return OrNone(std::move(moves));
  }
  // Returns the domains that lack most of what they had if all wanted everything.
  std::vector<DomainId> Neediest() const {
    const std::vector<uint64_t> fair = Fair(Want::kAll);
    Ranked getters;
    for (size_t i = 0; i < domains.size(); ++i) {
      if (fair[i] > domains[i].held()) getters.Add(i, {fair[i] - domains[i].held(), 0});
    }
    return getters.domains;
  }
  Moves NextToFill() const {
    if (Present() >= slabs) return {std::nullopt};
    Moves moves;
    for (const DomainId to : Neediest()) moves.push_back(SlabMove{.to = to});
    return OrNone(std::move(moves));
  }
};

inline std::string ToText(const std::optional<SlabMove>& move) {
  if (!move.has_value()) return "no move";
  const auto name = [](const std::optional<DomainId>& domain) {
    return domain.has_value() ? absl::StrCat(static_cast<uint32_t>(*domain)) : "nobody";
  };
  return absl::StrCat("from ", name(move->from), " to ", name(move->to));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_HOST_PLAIN_HOST_SHARES_H_
