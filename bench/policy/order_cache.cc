#include "bench/policy/order_cache.h"

#include <optional>
#include <vector>

namespace kvtier::bench {

void OrderCache::NoteBelow(uint32_t block, bool is_below) {
  if (const auto place = PlaceOf(block)) order_.NoteBelow(*place, is_below);
}

ReuseHint OrderCache::HintOf(const TraceRequest& request) const {
  ReuseHint hint;
  if (hints_ == Hints::kTold && request.hint.has_value()) hint = *request.hint;
  hint.finish = FinishReason::kUnknown;
  return hint;
}

void OrderCache::AdviseOf(const TraceRequest& request) {
  if (hints_ == Hints::kIgnored || !request.hint.has_value()) return;
  for (const uint32_t block : request.blocks) {
    if (const auto place = PlaceOf(block)) order_.Advise(*place, *request.hint);
  }
}

void OrderCache::TakeIn(const TraceRequest& request) {
  order_.AdvanceTo(absl::UnixEpoch() + request.at);
  const ReuseHint hint = HintOf(request);
  std::vector<EvictionOrder::Place> held;
  for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
    const std::optional<EvictionOrder::Place> place = PlaceOf(*block);
    if (!place.has_value()) continue;
    order_.Hold(*place);
    held.push_back(*place);
  }
  for (const EvictionOrder::Place place : held) order_.Touch(place, hint);
  bool refused = false;  // Blocks after a refused one are useless without it.
  for (size_t i = 0; i < request.blocks.size(); ++i) {
    if (Contains(request.blocks[i])) continue;
    EvictionOrder::Newcomer newcomer{
        .key = KeyOf(request.blocks[i]), .hint = hint, .length = kTokensPerBlock};
    if (i > 0) newcomer.parent = KeyOf(request.blocks[i - 1]);
    newcomer.followers = static_cast<uint32_t>(request.blocks.size() - i - 1);
    if (size() == capacity()) {
      const std::optional<BlockKey> victim = order_.Victim();
      refused = refused || !victim.has_value() ||
                (admitted_ == Admitted::kWorthIt && !order_.Admits(newcomer));
      if (refused) {
        order_.Refuse(newcomer);
        Refuse(request.blocks[i]);
        continue;
      }
      order_.Erase(places_[BlockOf(*victim)]);
      Leave(BlockOf(*victim));
    }
    const EvictionOrder::Place place = order_.Insert(newcomer);
    places_[request.blocks[i]] = place;
    Enter(request.blocks[i]);
    order_.Hold(place);
    held.push_back(place);
  }
  for (const EvictionOrder::Place place : held) order_.Unhold(place);
  AdviseOf(request);
}

}  // namespace kvtier::bench
