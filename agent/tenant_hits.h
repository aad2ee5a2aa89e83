// TenantHits counts, for each tenant, the blocks that its workers asked for and got, by where each
// was, and those that nobody had.
//
// Executor thread only.
#ifndef KVTIER_AGENT_TENANT_HITS_H_
#define KVTIER_AGENT_TENANT_HITS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/tier.h"
#include "tier_host/host_tier.h"

namespace kvtier {

class TenantHits {
 public:
  struct Counts {
    std::array<uint64_t, kTierCount> hits{};  // Blocks leased, by the tier that had them.
    uint64_t peer_hits = 0;                   // Blocks leased that another node had.
    uint64_t misses = 0;                      // Blocks asked for that nobody had.
  };

  // Counts a block that was leased to a worker; `from` is the tier that had it, nullopt: another
  // node.
  void CountHit(DomainId domain, std::optional<Tier> from) {
    Counts& counts = At(domain);
    ++(from.has_value() ? counts.hits[TierIndex(*from)] : counts.peer_hits);
  }
  void CountMisses(DomainId domain, uint64_t blocks) { At(domain).misses += blocks; }
  // Returns the tenant's counts since the agent's start.
  Counts Of(DomainId domain) const {
    const auto index = static_cast<size_t>(domain);
    return index < counts_.size() ? counts_[index] : Counts();
  }

 private:
  Counts& At(DomainId domain) {
    const auto index = static_cast<size_t>(domain);
    if (index >= counts_.size()) counts_.resize(index + 1);
    return counts_[index];
  }

  std::vector<Counts> counts_;  // Counts by domain.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_TENANT_HITS_H_
