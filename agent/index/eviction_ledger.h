// EvictionLedger counts which domain's blocks left host memory for the sake of which domain, since
// the agent's start: mostly of its own, and of another's where memory that was lent is taken back.
// A domain that has ended stays in the counts.
//
// Executor thread only. Memory: a few words for each domain, and for each pair of domains one of
// which took of the other.
#ifndef KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_
#define KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "tier_host/host_tier.h"

namespace kvtier {

class EvictionLedger {
 public:
  // Counts blocks of `owner` that left because `cause` needed their room.
  void Count(DomainId owner, DomainId cause, uint64_t blocks) {
    const auto at = static_cast<size_t>(owner);
    if (at >= of_.size()) of_.resize(at + 1);
    of_[at] += blocks;
    if (owner != cause && blocks > 0) taken_[{owner, cause}] += blocks;
  }
  // Returns how many blocks of the domain left, for whomever.
  uint64_t Of(DomainId owner) const {
    const auto at = static_cast<size_t>(owner);
    return at < of_.size() ? of_[at] : 0;
  }
  // Returns how many blocks of the domain left for others.
  uint64_t SufferedBy(DomainId owner) const {
    uint64_t blocks = 0;
    for (const auto& [pair, taken] : taken_) blocks += pair.first == owner ? taken : 0;
    return blocks;
  }
  // Returns how many blocks of other domains left for `cause`.
  uint64_t CausedBy(DomainId cause) const {
    uint64_t blocks = 0;
    ForEachTakenBy(cause, [&](DomainId, uint64_t taken) { blocks += taken; });
    return blocks;
  }
  // Calls `visit` with each domain of which blocks left for `cause`, and their number.
  template <typename Visit>
  void ForEachTakenBy(DomainId cause, Visit visit) const {
    for (const auto& [pair, taken] : taken_) {
      if (pair.second == cause) visit(pair.first, taken);
    }
  }

 private:
  std::vector<uint64_t> of_;  // Evictions by owner of the block.
  // Evictions by owner and by the domain that caused them.
  std::map<std::pair<DomainId, DomainId>, uint64_t> taken_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_EVICTION_LEDGER_H_
