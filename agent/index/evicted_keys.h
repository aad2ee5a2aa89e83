// EvictedKeys remembers which blocks left host memory lately to make room, so that a miss can tell
// "absent" from "evicted". Only the latter calls for more memory or a disk.
//
// Executor thread only. It forgets the oldest beyond kMaxEvictedKeys.
#ifndef KVTIER_AGENT_INDEX_EVICTED_KEYS_H_
#define KVTIER_AGENT_INDEX_EVICTED_KEYS_H_

#include <cstddef>
#include <deque>

#include "absl/container/flat_hash_map.h"
#include "agent/limits.h"
#include "core/block_key.h"

namespace kvtier {

class EvictedKeys {
 public:
  explicit EvictedKeys(size_t limit = kMaxEvictedKeys) : limit_(limit) {}

  void Add(const BlockKey& key) {
    order_.push_back(key);
    ++counts_[key];
    if (order_.size() <= limit_) return;
    const auto oldest = counts_.find(order_.front());
    if (--oldest->second == 0) counts_.erase(oldest);
    order_.pop_front();
  }
  bool Contains(const BlockKey& key) const { return counts_.contains(key); }

 private:
  const size_t limit_;
  std::deque<BlockKey> order_;                      // The oldest is in front.
  absl::flat_hash_map<BlockKey, uint32_t> counts_;  // Number of times that each key is in `order_`.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_EVICTED_KEYS_H_
