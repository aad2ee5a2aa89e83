// TurnOrder says which of several parties that wait has the next turn: the one that had the least
// so far, by the cost of its turns over its weight; of two alike, the first. A party that had
// nothing waiting begins level with the others: it saves up no turns (start-time fair queueing).
//
// Parties are small numbers; a party is added when it is first named. Pure bookkeeping. One thread.
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
  // Lets the party have `weight` times what a party of weight 1 has, from now on. It weighs 1 until
  // then. REQUIRES: weight > 0.
  void SetWeight(size_t party, uint32_t weight) { Of(party).weight = weight; }
  // Notes that the party is about to have something waiting, after it had nothing waiting.
  void Enter(size_t party) { Of(party).had = std::max(Of(party).had, level_); }
  // Returns what the party is charged for a turn: the cost over its weight, rounded up.
  uint64_t Charge(size_t party, uint64_t cost);
  // Returns the party whose turn it is, among those for which `waits` is true. O(parties).
  std::optional<size_t> Next(absl::FunctionRef<bool(size_t)> waits) const;
  // Notes that the party has its turn, for which it was charged `paid` already.
  void Begin(size_t party, uint64_t paid = 0) { level_ = Of(party).had - paid; }

 private:
  struct Party {
    uint64_t had = 0;     // Cost of its turns over its weight, from its level on.
    uint32_t weight = 1;  // Weight of the party, never 0.
  };
  Party& Of(size_t party) {
    if (party >= parties_.size()) parties_.resize(party + 1);
    return parties_[party];
  }
  std::vector<Party> parties_;
  uint64_t level_ = 0;  // `had` of the party with the turn, before that turn.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_TURN_ORDER_H_
