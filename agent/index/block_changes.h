// BlockChanges reports every change of the blocks that this node holds. Followers register here
// when they are made:
//
//   Residency            the tables that workers read without a call
//   CoordinatorReporter  what the coordinator is told (host memory and disks)
//   Offloader            blocks that leave host memory before a disk has them
//   KeptPrefixes         blocks that leave host memory though they are kept
//
// The index, the disks and the GPU pools report a change in the turn of the executor in which it
// happens: after a block has come, and before the room of a block that leaves is free.
//
// Executor thread only.
#ifndef KVTIER_AGENT_INDEX_BLOCK_CHANGES_H_
#define KVTIER_AGENT_INDEX_BLOCK_CHANGES_H_

#include <optional>
#include <vector>

#include "agent/index/kept_number.h"
#include "core/block_key.h"
#include "core/node.h"
#include "core/tier.h"
#include "tier_host/host_tier.h"

namespace kvtier {

struct BlockChange {
  Delta delta;
  // Domain of the block; nullopt: a disk has it, and this node does not serve its tenant any more.
  std::optional<DomainId> domain;
  // A block that left host memory had been set aside since its last use (EvictionOrder).
  bool was_aside = false;
  // Number of the kept block that left host memory, because it is damaged or its tenant dropped it;
  // 0: the block was not kept.
  KeptNumber was_kept{};
};

class BlockFollower {
 public:
  // Takes note of the change. It may read the index, and starts nothing.
  virtual void OnChange(const BlockChange& change) = 0;
  // Prefetches the cache lines that OnChange() is about to read when the block comes to host
  // memory.
  virtual void PrefetchCacheLines(DomainId, const BlockKey&) const {}

 protected:
  ~BlockFollower() = default;
};

class BlockChanges {
 public:
  // Adds a follower, which is told after those added before it. Does not own: it must live as long.
  void Follow(BlockFollower* follower) { followers_.push_back(follower); }
  void Tell(const BlockChange& change) const {
    for (BlockFollower* const follower : followers_) follower->OnChange(change);
  }
  void PrefetchCacheLines(DomainId domain, const BlockKey& key) const {
    for (const BlockFollower* const follower : followers_)
      follower->PrefetchCacheLines(domain, key);
  }

 private:
  std::vector<BlockFollower*> followers_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_BLOCK_CHANGES_H_
