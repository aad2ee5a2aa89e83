// HostBlocks is where the index keeps the blocks of host memory: each at one address until it is
// erased, and found by its key. The keys lie in the table itself, so a key that is not there costs
// one look at memory, and a table that grows does not visit the blocks.
//
// Executor thread only. Its memory does not shrink when blocks leave.
#ifndef KVTIER_AGENT_INDEX_HOST_BLOCKS_H_
#define KVTIER_AGENT_INDEX_HOST_BLOCKS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "agent/index/host_order.h"
#include "agent/index/kept_number.h"
#include "agent/index/pin.h"
#include "core/block_key.h"
#include "core/check.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// HostBlock is one block in host memory.
struct HostBlock : ResidentBlock {
  HostSlot slot;
  HostOrder::Place place{};  // Place in the order of its domain.
  uint32_t hits = 0;         // Hits since the block came.
  // Number of the block if it is kept; a kept block is not evicted, wherever it lies.
  KeptNumber kept{};
};

class HostBlocks {
 public:
  // Adds a block with this key; the caller fills in the rest of it. REQUIRES: it is not there.
  HostBlock* Add(const BlockKey& key) {
    const auto [found, added] = blocks_.try_emplace(key, nullptr);
    KVT_CHECK(added);
    found->second = TakePlace();
    found->second->meta.key = key;
    return found->second;
  }
  // Returns the block; nullptr: it is not there.
  HostBlock* Find(const BlockKey& key) const {
    const auto found = blocks_.find(key);
    return found == blocks_.end() ? nullptr : found->second;
  }
  bool Contains(const BlockKey& key) const { return blocks_.contains(key); }
  // Prefetches the cache lines that Add() and Find() read.
  void PrefetchCacheLines(const BlockKey& key) const { blocks_.prefetch(key); }
  // Hides the block, which is not found any more and keeps its slot and its address until Free().
  // REQUIRES: the block is there.
  void Hide(const HostBlock& block) { KVT_CHECK(blocks_.erase(block.meta.key) == 1); }
  // Frees a hidden block and its slot.
  void Free(HostBlock* block) {
    *block = HostBlock();
    free_.push_back(block);
  }
  size_t size() const { return blocks_.size(); }
  // Calls `visit` with each block, in no order.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& [key, block] : blocks_) visit(*block);
  }
  // Calls `visit` with the blocks from the place `*at` on, and moves `*at` on; looks at `limit`
  // places at most. Returns false at the last place. A block keeps its place until it leaves.
  template <typename Visit>
  bool ForEachFrom(size_t* at, size_t limit, Visit visit) const {
    const size_t places = places_.size() * kBlocksAtOnce;
    for (const size_t end = *at + std::min(limit, places - *at); *at < end; ++*at) {
      const HostBlock& block = places_[*at / kBlocksAtOnce][*at % kBlocksAtOnce];
      if (block.slot && !block.is_condemned) visit(block);
    }
    return *at < places;
  }

 private:
  static constexpr size_t kBlocksAtOnce = 64;
  HostBlock* TakePlace() {
    if (free_.empty()) {
      HostBlock* const more = places_.emplace_back(new HostBlock[kBlocksAtOnce]).get();
      for (size_t i = kBlocksAtOnce; i > 0; --i) free_.push_back(&more[i - 1]);
    }
    HostBlock* const place = free_.back();
    free_.pop_back();
    // The processor loads the block that is taken next meanwhile.
    if (!free_.empty()) {
      const char* const next = reinterpret_cast<const char*>(free_.back());
      for (size_t line = 0; line < sizeof(HostBlock); line += 64)
        __builtin_prefetch(next + line, 1);
    }
    return place;
  }

  absl::flat_hash_map<BlockKey, HostBlock*> blocks_;
  std::vector<std::unique_ptr<HostBlock[]>> places_;
  std::vector<HostBlock*> free_;  // Free entries of `places_`.
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_INDEX_HOST_BLOCKS_H_
