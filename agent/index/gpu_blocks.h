// GpuBlocks lists the blocks of one GPU pool, with their slots and the order in which they leave.
//
// Executor thread only. Invariants, checked by Audit(): the order and the map of slots have exactly
// these blocks; pinned_bytes() is the sum over the pinned blocks.
#ifndef KVTIER_AGENT_INDEX_GPU_BLOCKS_H_
#define KVTIER_AGENT_INDEX_GPU_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "agent/index/block_changes.h"
#include "agent/index/block_index.h"
#include "agent/index/pin.h"
#include "core/arrival.h"
#include "core/clock.h"
#include "core/eviction_order.h"
#include "core/reuse_hint.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

struct GpuBlock : ResidentBlock {
  GpuSlot slot;
  EvictionOrder::Place place{};
};

class GpuBlocks final : public PinHome {
 public:
  // Parts are objects and options of the list; it owns none of the objects.
  struct Parts {
    GpuPool* pool = nullptr;
    DomainId domain{};            // Domain of the tenant that the pool belongs to.
    BlockIndex* index = nullptr;  // Joined from the start.
    BlockChanges* changes = nullptr;
    EvictionPolicy eviction = EvictionPolicy::kLearnt;
    const Clock* clock = nullptr;
  };
  explicit GpuBlocks(const Parts& parts)
      : PinHome(Tier::kGpu), parts_(parts), order_(parts.eviction, [this](const BlockKey& key) {
          const GpuBlock* const block = Find(key);
          return block == nullptr ? std::nullopt : std::optional(block->place);
        }) {
    parts_.index->Join(this);
  }

  // Publishes the block of a slot that nothing writes any more. REQUIRES: the block is not in the
  // pool; `slot` holds exactly the bytes of the meta's sum.
  void Publish(const BlockMeta& meta, GpuSlot slot, Arrival arrival, const ReuseHint& hint);
  // Takes the block out of the pool, and returns its slot, which the caller frees by destroying it.
  // REQUIRES: the block is there and not pinned.
  GpuSlot Unpublish(const BlockKey& key);

  // Returns the block; nullptr: it is not here. Valid until the next change.
  const GpuBlock* Find(const BlockKey& key) const;
  bool Contains(const BlockKey& key) const { return blocks_.contains(key); }
  std::optional<Pin> PinOf(const BlockKey& key) override;
  // Moves the clock of the order; Touch() and Publish() use that time.
  void AdvanceTo(absl::Time now) { order_.AdvanceTo(now); }
  // Marks the block as just used. Ignores what is not here.
  void Touch(const BlockKey& key, const ReuseHint& hint);
  // Takes note of what the engine says of the block's next use. This does not count as a use.
  // Ignores a block that is not here.
  void Advise(const BlockKey& key, const ReuseHint& hint);

  // Returns the unpinned block with no child in the pool whose slot is worth the least.
  std::optional<BlockKey> Cheapest() { return order_.Victim(); }
  // Returns the cheapest block that host memory or a disk has, too. Looks only at the cheapest few
  // blocks.
  std::optional<BlockKey> CheapestCopy();
  // Returns the unpinned blocks that no lower tier has, in the order in which they would leave,
  // `limit` at most; looks at the cheapest few only.
  std::vector<BlockKey> CheapestOnlyHere(size_t limit);
  // Returns the blocks in slots from `first` on that nobody has pinned, by slot; `limit` at most.
  std::vector<BlockKey> UnheldFrom(uint32_t first, size_t limit) const;
  // Returns whether nobody has pinned the block, and no child of it is in the pool. REQUIRES: it is
  // in the pool.
  bool MayLeave(const BlockKey& key) const { return order_.IsCandidate(*order_.Find(key)); }
  // Returns the number of the block's last use: a number that has not changed says that the block
  // was not used meanwhile. REQUIRES: it is in the pool.
  uint64_t LastUseOf(const BlockKey& key) const { return order_.LastUseOf(*order_.Find(key)); }

  const EvictionOrder& order() const { return order_; }
  ReuseHazards* hazards() { return order_.hazards(); }
  size_t size() const { return blocks_.size(); }
  // Counts the blocks that host memory does not have. O(blocks).
  size_t blocks_not_in_host() const;
  // Returns the bytes, in slots with blocks, that no payload uses.
  uint64_t padding_bytes() const { return padding_bytes_; }
  DomainId domain() const { return parts_.domain; }
  // Calls `visit` with each block, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, block] : blocks_) visit(block);
  }
  void Audit() const;

 private:
  void Hold(ResidentBlock* block) override { order_.Hold(static_cast<GpuBlock*>(block)->place); }
  void Unhold(ResidentBlock* block) override {
    order_.Unhold(static_cast<GpuBlock*>(block)->place);
  }

  const Parts parts_;
  absl::node_hash_map<BlockKey, GpuBlock> blocks_;  // Nodes: pins point at them.
  EvictionOrder order_;
  std::map<uint32_t, BlockKey> by_slot_;
  uint64_t padding_bytes_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_GPU_BLOCKS_H_
