#include "bench/policy/policies.h"

#include <algorithm>

#include "bench/policy/arc_cache.h"
#include "bench/policy/fifo_cache.h"
#include "bench/policy/lru_cache.h"
#include "bench/policy/min_cache.h"
#include "bench/policy/order_cache.h"
#include "bench/policy/s3_fifo_cache.h"
#include "bench/policy/sieve_cache.h"
#include "bench/policy/w_tiny_lfu_cache.h"

namespace kvtier::bench {
namespace {

template <typename Cache>
std::unique_ptr<ReplayedCache> Make(const Trace& trace, size_t capacity,
                                    uint32_t /*attention_tokens*/) {
  return std::make_unique<Cache>(trace.parents.size(), capacity);
}

template <OrderCache::Hints hints>
std::unique_ptr<ReplayedCache> MakeLearnt(const Trace& trace, size_t capacity,
                                          uint32_t attention_tokens) {
  return std::make_unique<OrderCache>(
      trace.parents.size(), capacity,
      OrderCache::Options{.hints = hints, .attention_tokens = attention_tokens});
}

constexpr Policy kPolicies[] = {
    {.name = "learnt", .make = MakeLearnt<OrderCache::Hints::kIgnored>},
    {.name = "hinted", .make = MakeLearnt<OrderCache::Hints::kTold>, .needs_hints = true},
    {.name = "lru", .make = Make<LruCache>},
    {.name = "fifo", .make = Make<FifoCache>},
    {.name = "s3_fifo", .make = Make<S3FifoCache>},
    {.name = "sieve", .make = Make<SieveCache>},
    {.name = "arc", .make = Make<ArcCache>},
    {.name = "w_tiny_lfu", .make = Make<WTinyLfuCache>},
    {.name = "min",
     .make = [](const Trace& trace, size_t capacity, uint32_t /*attention_tokens*/)
         -> std::unique_ptr<ReplayedCache> { return std::make_unique<MinCache>(trace, capacity); }},
};

}  // namespace

std::span<const Policy> Policies() { return kPolicies; }

const Policy* FindPolicy(absl::string_view name) {
  const auto found = std::ranges::find(kPolicies, name, &Policy::name);
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace kvtier::bench
