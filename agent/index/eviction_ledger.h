// EvictionLedger counts which domain's blocks left host memory for the sake of which domain.
//
// Executor thread only. Memory: a few words for each pair of domains that there was.
#ifndef KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_
#define KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_

#include <cstdint>
#include <map>
#include <utility>

#include "tier_host/host_tier.h"

namespace kvtier {

class EvictionLedger {
 public:
  // Counts blocks of `owner` that left because `cause` needed their room; itself, mostly.
  void Count(DomainId owner, DomainId cause, uint64_t blocks) {
    if (blocks > 0) blocks_[{owner, cause}] += blocks;
  }
  uint64_t Of(DomainId owner, DomainId cause) const {
    const auto found = blocks_.find({owner, cause});
    return found == blocks_.end() ? 0 : found->second;
  }
  // Returns the blocks of a domain that left for others, or those of others that left for it.
  uint64_t SufferedBy(DomainId owner) const {
    return Sum([&](DomainId of, DomainId by) { return of == owner && by != owner; });
  }
  uint64_t CausedBy(DomainId cause) const {
    return Sum([&](DomainId of, DomainId by) { return by == cause && of != cause; });
  }

 private:
  template <typename Counts>
  uint64_t Sum(Counts counts) const {
    uint64_t sum = 0;
    for (const auto& [pair, blocks] : blocks_) {
      if (counts(pair.first, pair.second)) sum += blocks;
    }
    return sum;
  }

  std::map<std::pair<DomainId, DomainId>, uint64_t> blocks_;  // By owner and cause.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_
