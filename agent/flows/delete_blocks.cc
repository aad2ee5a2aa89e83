#include "agent/flows/delete_blocks.h"

#include "absl/status/status.h"

namespace kvtier {

void BlockDeleter::DropFromMemory(const BlockKey& key) {
  parts_.gpus->Drop(key);
  const BlockIndex& index = *parts_.index;
  if (index.In(Tier::kHost, key) && !index.IsPinned(key)) parts_.evictor->DropFromHost(key);
}

Task<Deleted> BlockDeleter::Delete(std::vector<BlockRun> runs) {
  Deleted deleted;
  for (const BlockRun& run : runs) {
    // From the end, so that a block goes before the one it stands behind.
    for (auto key = run.keys.rbegin(); key != run.keys.rend(); ++key) {
      if (!parts_.index->NearestTier(*key).has_value()) continue;
      DropFromMemory(*key);
      if (parts_.index->In(Tier::kDisk, *key)) {
        const absl::Status erased = co_await parts_.disks->Erase(*key);
        // What a read brought back meanwhile goes as well.
        if (erased.ok()) DropFromMemory(*key);
      }
      const bool gone = !parts_.index->NearestTier(*key).has_value();
      ++(gone ? deleted.blocks : deleted.held);
    }
  }
  co_return deleted;
}

}  // namespace kvtier
