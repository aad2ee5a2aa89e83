#include "core/eviction_summary.h"

namespace kvtier {

void EvictionSummary::Add(const EvictionSummary& other) {
  orders += other.orders;
  following_lru += other.following_lru;
  refused += other.refused;
  score.learnt += other.score.learnt;
  score.lru += other.score.lru;
  score.asked += other.score.asked;
}

}  // namespace kvtier
