#include "core/turn_order.h"

namespace kvtier {

uint64_t TurnOrder::Charge(size_t party, uint64_t cost) {
  Party& charged = Of(party);
  const uint64_t charge = (cost + charged.weight - 1) / charged.weight;
  charged.had += charge;
  return charge;
}

std::optional<size_t> TurnOrder::Next(absl::FunctionRef<bool(size_t)> waits) const {
  std::optional<size_t> next;
  for (size_t party = 0; party < parties_.size(); ++party) {
    if (waits(party) && (!next || parties_[party].had < parties_[*next].had)) next = party;
  }
  return next;
}

}  // namespace kvtier
