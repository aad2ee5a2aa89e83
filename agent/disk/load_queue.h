// LoadQueue is the line of loads that have not started. Foreground loads come before prefetches;
// within each kind the tenants take turns, and the loads of one tenant keep their order. A prefetch
// changes lines when a call begins to wait for it.
//
// Pure bookkeeping. Executor thread only.
#ifndef KVTIER_AGENT_DISK_LOAD_QUEUE_H_
#define KVTIER_AGENT_DISK_LOAD_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "core/block_key.h"
#include "core/block_lengths.h"
#include "core/fair_line.h"
#include "core/reuse_hint.h"
#include "tier_host/host_tier.h"

namespace kvtier {

enum class Urgency : uint8_t { kForeground, kPrefetch };

struct QueuedLoad {
  BlockKey key;
  DomainId domain{};                       // Domain that the block lies in.
  std::optional<DomainId> member{};        // Member that asks, as BlockRun::member.
  uint64_t bytes = 1;                      // Bytes to read: the cost of its turn.
  BlockLengths lengths;                    // Lengths that blocks of its space may have.
  Urgency urgency = Urgency::kForeground;  // Urgency now.
  ReuseHint hint{};                        // Hint of the request that began it.
  // Whether the load began as a prefetch, and so runs even if no call waits for it any more. Push()
  // sets it.
  bool wanted_anyway = false;

  DomainId payer() const { return member.value_or(domain); }
};

class LoadQueue {
 public:
  // Gives the domain `weight` times the turns of a domain of weight 1, which is the weight that it
  // has at first.
  void SetWeight(DomainId domain, uint32_t weight) {
    foreground_.SetWeight(static_cast<size_t>(domain), weight);
    prefetch_.SetWeight(static_cast<size_t>(domain), weight);
  }
  // REQUIRES: no load of the key is in the queue.
  void Push(QueuedLoad load);
  // Puts a waiting prefetch of the key behind the foreground loads. Returns false if none waits.
  bool MoveToForeground(const BlockKey& key);
  // REQUIRES: not empty.
  QueuedLoad Pop();
  size_t size() const { return foreground_.size() + prefetch_.size(); }
  bool empty() const { return size() == 0; }

 private:
  struct Prefetch {
    DomainId payer{};
    FairLine<QueuedLoad>::Place place;
  };
  FairLine<QueuedLoad> foreground_;
  FairLine<QueuedLoad> prefetch_;
  absl::flat_hash_map<BlockKey, Prefetch> prefetch_at_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DISK_LOAD_QUEUE_H_
