// ColdEnd says which block of host memory to offer to the disk next, so that the blocks that will
// leave first are ready before their room is needed: an eviction never waits for a disk.
//
// ColdEnd sets blocks aside in the order in which the Evictor takes them (EvictionOrder). Blocks
// that are aside could leave now without a loss: they were offered since they were last used, and
// were written or refused. Blocks of each domain and slot size are looked after on their own,
// because others make room for them only by a whole slab (HostOrder).
//
// Keeps no list of its own. Executor thread only.
#ifndef KVTIER_AGENT_INDEX_COLD_END_H_
#define KVTIER_AGENT_INDEX_COLD_END_H_

#include <cstdint>
#include <optional>

#include "agent/index/block_index.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// This share of the bytes of one slot size is kept ready or free, and at least one slot. 64 GiB
// keep 4 GiB ready: as much as a drive of 2 GB/s writes in two seconds, while puts may come faster.
// A larger share would write blocks that are still hot, which offering at eviction is to avoid.
inline constexpr uint64_t kReadyDivisor = 16;

class ColdEnd {
 public:
  // Does not own.
  ColdEnd(BlockIndex* index, const HostTier* host) : index_(index), host_(host) {}

  // Returns the block to offer next, which is ready from now on; nullopt: enough is ready or free.
  std::optional<BlockKey> TakeNext();

 private:
  // Blocks in slots of one size, of one domain.
  struct Size {
    DomainId domain{};
    uint64_t slot_bytes = 0;
  };
  // Returns the size that is shortest of room; of two alike, the first. nullopt: none is short.
  std::optional<Size> Neediest() const;

  BlockIndex* const index_;     // Not owned.
  const HostTier* const host_;  // Not owned.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_COLD_END_H_
