// GpuOffloader empties the GPU pool ahead of need. So a call that asks for a slot finds one that no
// step of a worker may still read, and a block that only the pool has is not lost with its slot.
//
// The blocks that host memory or a disk has, too, leave first, because they need no copy. They are
// nearly all blocks, since a commit out of the pool copies the block to host memory first. If they
// are too few, because host memory has dropped its copies since, blocks that only the pool has are
// copied to host memory in the background, in room that Evictor::ReserveHost() makes, proved by
// their sums, and then leave. Blocks leave in the order of EvictionOrder: the one whose room is
// worth the least first, and never before its children. A block that is used while it is copied
// stays. No call waits for these copies.
//
// Executor thread only. Decides; the evictor and the copies act.
#ifndef KVTIER_AGENT_GPU_GPU_OFFLOAD_H_
#define KVTIER_AGENT_GPU_GPU_OFFLOAD_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agent/agent_stats.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/gpu/gpu_evict.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/gpu_blocks.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {

// Watermarks of the spare slots, which are free or draining: one slot in this many, and at least
// one. If fewer slots are spare than the first says, blocks leave until as many are as the second
// says. A pool of one slot needs none.
inline constexpr size_t kGpuHighWatermarkSpare = 32;
inline constexpr size_t kGpuLowWatermarkSpare = 16;
// Maximum number of blocks that one Pump() evicts, so that it takes microseconds.
inline constexpr size_t kMaxEvictedAhead = 64;
// Blocks of one copy to host memory, which are proved together, and copies at a time: one
// is proved while the next moves.
inline constexpr size_t kMaxBlocksOffloaded = 16;
inline constexpr size_t kMaxGpuOffloadsRunning = 2;

class GpuOffloader {
 public:
  struct Parts {  // Does not own.
    TaskScope* scope = nullptr;
    BlockIndex* index = nullptr;
    Evictor* host_evictor = nullptr;
    const GpuPool* pool = nullptr;
    DomainId domain{};  // Domain of the tenant that the pool belongs to.
    const Device* device = nullptr;
    GpuBlocks* blocks = nullptr;
    GpuEvictor* evictor = nullptr;
    GpuCopies* copies = nullptr;
    GpuStats* stats = nullptr;
    TierStats* host_stats = nullptr;
  };
  explicit GpuOffloader(const Parts& parts) : parts_(parts) {}

  // Begins the copies that are due now. The owner calls it after slots were taken, and at
  // intervals, because leases end, and a copy that failed or found no room is tried again. A lost
  // device copies nothing any more.
  void Pump();
  // Lets no further copies begin.
  void Stop() { stopping_ = true; }

 private:
  struct Batch {
    std::vector<CopiedBlock> copies;
    std::vector<uint64_t> last_uses;  // Last use of each, to tell whether it was used meanwhile.
  };
  size_t spare() const {
    return parts_.pool->table().free_slots() + parts_.pool->table().draining_slots();
  }
  // Returns the number of spare slots that a watermark asks for.
  size_t SpareOf(size_t watermark) const;
  // Starts copies until they will leave enough slots spare, or kMaxGpuOffloadsRunning run.
  void StartCopies();
  Batch NextBatch(size_t blocks);
  Task<void> Run(Batch batch);
  // Publishes a copied block in host memory, and drops it from the pool if its slot is needed.
  // `forgotten`: the tenant was erased meanwhile, so the block is not published, and leaves the
  // pool if nobody holds it.
  void Finish(CopiedBlock copy, uint64_t last_use, bool forgotten);

  const Parts parts_;
  size_t running_ = 0;  // Copies that run.
  size_t leaving_ = 0;  // Blocks in those copies.
  bool stopping_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_OFFLOAD_H_
