// EvictionSummary says, for operators, what the orders of eviction of one tier do. Each domain of
// host memory, each GPU pool and each disk has an order; those of one tier have the same policy.
#ifndef KVTIER_CORE_EVICTION_SUMMARY_H_
#define KVTIER_CORE_EVICTION_SUMMARY_H_

#include <cstdint>

#include "core/eviction_policy.h"
#include "core/reuse_sample.h"

namespace kvtier {

struct EvictionSummary {
  EvictionPolicy policy = EvictionPolicy::kLearnt;
  uint64_t orders = 0;
  uint64_t following_lru = 0;  // Orders of policy kLearnt that follow LRU now.
  uint64_t refused = 0;        // Blocks that were worth less than all that were there.
  ReuseSample::Score score;    // Sum over the orders.
  // Adds the figures of another summary of the same policy.
  void Add(const EvictionSummary& other);
};

}  // namespace kvtier

#endif  // KVTIER_CORE_EVICTION_SUMMARY_H_
