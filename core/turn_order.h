// TurnOrder says which of several parties that wait has the next turn: the one that had the least
// so far, by the cost of its turns; of two alike, the first. A party that had nothing waiting
// begins level with the others: it saves up no turns (start-time fair queueing).
//
// Parties are small numbers, and come as they are named. Pure bookkeeping. One thread.
#ifndef KVTIER_CORE_TURN_ORDER_H_
#define KVTIER_CORE_TURN_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kvtier {

class TurnOrder {
 public:
  // Notes that something of the party is about to wait, where nothing of it did.
  void Enter(size_t party) { Had(party) = std::max(Had(party), level_); }
  void Charge(size_t party, uint64_t cost) { Had(party) += cost; }
  // Returns the party whose turn it is, of those of which `waits` is true. O(parties).
  std::optional<size_t> Next(absl::FunctionRef<bool(size_t)> waits) const;
  // Notes that the party has its turn, for which it was charged `paid` already.
  void Begin(size_t party, uint64_t paid = 0) { level_ = Had(party) - paid; }

 private:
  uint64_t& Had(size_t party) {
    if (party >= had_.size()) had_.resize(party + 1);
    return had_[party];
  }
  std::vector<uint64_t> had_;  // By party: cost of its turns, from its level on.
  uint64_t level_ = 0;         // What the party that has the turn had before it.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_TURN_ORDER_H_
