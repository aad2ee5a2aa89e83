// GpuCopies runs the agent's copies between host memory and one GPU pool, proves what
// comes out of it, and counts what they took. What a lost device may still copy it keeps.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_COPIES_H_
#define KVTIER_AGENT_GPU_GPU_COPIES_H_

#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/index/pin.h"
#include "core/block_proof.h"
#include "core/byte_threads.h"
#include "core/executor.h"
#include "core/reuse_hint.h"
#include "core/task.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_host/host_tier.h"

namespace kvtier {

// CopiedBlock is one block of a copy: its two ends, and the holds that keep both ends in place.
struct CopiedBlock {
  SlotRef slot;                // Slot in the pool.
  std::span<std::byte> bytes;  // Bytes in host memory.
  // The end that the block comes to is room of its own, one of the first two. The end that
  // it comes from is room that a worker wrote, or a block's that is pinned.
  GpuSlot gpu{};
  HostSlot host{};
  Pin pin{};
  BlockMeta meta{};     // CopyOut() proves the block by its sum; others need not fill it in.
  bool proved = false;  // CopyOut() has copied this very block.
  ReuseHint hint{};     // Hint of the request that loads it into the pool.
};

class GpuCopies {
 public:
  struct Parts {  // Objects that the class uses and does not own.
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    GpuPool* pool = nullptr;
    GpuStats* stats = nullptr;
    TierStats* tier_stats = nullptr;
  };
  explicit GpuCopies(const Parts& parts) : parts_(parts) {}

  // Onboard() and Offload() call GpuPool::Scatter() and Gather(), and count the copies. REQUIRES:
  // `blocks` stay until the task ends. Errors: the pool's. After an error the blocks' slots and
  // pins are still the caller's, unless the device was lost in the middle: it may still copy, so
  // the slots and pins are kept here.
  Task<absl::Status> Onboard(std::span<CopiedBlock> blocks);
  Task<absl::Status> Offload(std::span<CopiedBlock> blocks, CopyUrgency urgency);
  // Offload() of whole blocks, each of which is then proved by its sum, or is not. On an
  // error none is.
  Task<absl::Status> CopyOut(std::span<CopiedBlock> blocks, CopyUrgency urgency);
  // Returns the memory that nobody uses again while this agent runs. A device's lanes bound it.
  const std::vector<CopiedBlock>& abandoned() const { return abandoned_; }

 private:
  static std::vector<GpuTransfer> TransfersOf(std::span<const CopiedBlock> blocks);
  void KeepIfAbandoned(const absl::Status& copied, std::span<CopiedBlock> blocks);
  void Begin(GpuLinkStats* link);
  void End(GpuLinkStats* link, absl::Time began, uint64_t bytes, bool ok);

  const Parts parts_;
  std::vector<CopiedBlock> abandoned_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_COPIES_H_
