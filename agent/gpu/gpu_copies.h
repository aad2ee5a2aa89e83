// GpuCopies runs the agent's copies between host memory and one GPU pool, proves blocks that come
// out of the pool, and counts the copies. It keeps the memory from or to which a lost device may
// still copy.
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
  // Holds on the two ends. The end that is copied to is held by `gpu` or `host`. The end that is
  // copied from is held by the other of these, or by `pin` if it is a published block's.
  GpuSlot gpu{};
  HostSlot host{};
  Pin pin{};
  BlockMeta meta{};     // CopyOut() compares the copy with its sum; Onboard(), Offload() ignore it.
  bool proved = false;  // Whether CopyOut() found that the copy matches the sum.
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
  // Calls Offload(), compares each copied block with its sum, and sets `proved`. Proves no block if
  // it returns an error.
  Task<absl::Status> CopyOut(std::span<CopiedBlock> blocks, CopyUrgency urgency);
  // Returns the blocks of copies that a lost device may still make. Their memory is not used again
  // while this agent runs. The device's lanes bound their number.
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
