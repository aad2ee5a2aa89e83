#include "bench/policy/order_cache.h"

#include <optional>
#include <vector>

namespace kvtier::bench {

void OrderCache::TakeIn(const TraceRequest& request) {
  std::vector<BlockKey> keys;
  keys.reserve(request.blocks.size());
  for (const uint32_t block : request.blocks) keys.push_back(KeyOf(block));
  std::vector<BlockKey> held;
  for (const BlockKey& key : keys) {
    if (!order_.Contains(key)) continue;
    order_.Hold(key);
    held.push_back(key);
  }
  for (auto key = held.rbegin(); key != held.rend(); ++key) order_.Touch(*key);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (Contains(request.blocks[i])) continue;
    if (size() == capacity()) {
      const std::optional<BlockKey> victim = order_.Victim();
      // The request alone fills the tier, so its tail has no room.
      if (!victim) {
        Refuse(request.blocks[i]);
        continue;
      }
      order_.Erase(*victim);
      Leave(BlockOf(*victim));
    }
    order_.Insert(keys[i], i == 0 ? std::nullopt : std::optional<BlockKey>(keys[i - 1]),
                  Arrival::kComputed);
    Enter(request.blocks[i]);
    order_.Hold(keys[i]);
    held.push_back(keys[i]);
  }
  for (const BlockKey& key : held) order_.Unhold(key);
}

}  // namespace kvtier::bench
