// OrderCache is a tier with the order of eviction that kvtier uses: the blocks of a request are
// held while its missing ones are inserted, and the order names a victim for each or refuses it.
#ifndef KVTIER_BENCH_POLICY_ORDER_CACHE_H_
#define KVTIER_BENCH_POLICY_ORDER_CACHE_H_

#include <optional>
#include <vector>

#include "bench/policy/replayed_cache.h"
#include "core/eviction_order.h"

namespace kvtier::bench {

class OrderCache : public ReplayedCache {
 public:
  // Blocks that are inserted when the tier is full.
  enum class Admitted : uint8_t {
    kWorthIt,  // Blocks that the order finds worth the room of its victim.
    kAll,      // All blocks, as in host memory above a disk.
  };
  // Hints says whether the order gets the hints that an engine could give for its requests.
  enum class Hints : uint8_t { kIgnored, kTold };
  struct Options {
    EvictionPolicy policy = EvictionPolicy::kLearnt;
    Admitted admitted = Admitted::kWorthIt;
    Hints hints = Hints::kIgnored;
    uint32_t attention_tokens = 0;  // Same meaning as in EvictionOrder.
  };
  OrderCache(size_t blocks_of_trace, size_t capacity, const Options& options)
      : ReplayedCache(blocks_of_trace, capacity),
        admitted_(options.admitted),
        hints_(options.hints),
        places_(blocks_of_trace),
        order_(
            options.policy, [this](const BlockKey& key) { return PlaceOf(BlockOf(key)); },
            options.attention_tokens) {}

  void NoteBelow(uint32_t block, bool is_below) override;

 protected:
  void TakeIn(const TraceRequest& request) override;

 private:
  std::optional<EvictionOrder::Place> PlaceOf(uint32_t block) const {
    return Contains(block) ? std::optional(places_[block]) : std::nullopt;
  }
  // Returns what the engine says when the request begins.
  ReuseHint HintOf(const TraceRequest& request) const;
  // Says why the answer ended, which is known at its end.
  void AdviseOf(const TraceRequest& request);

  const Admitted admitted_;
  const Hints hints_;
  std::vector<EvictionOrder::Place> places_;  // Place of each block, as long as the cache has it.
  EvictionOrder order_;
};

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_POLICY_ORDER_CACHE_H_
