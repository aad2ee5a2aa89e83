// GpuTier is one tenant's part of one GPU of the node: its pool of blocks, and all that moves
// blocks into it and out of it. The rest of the agent knows a GPU by this class alone.
//
//   put     Reserve(), CheckStep() and AwaitStep() of the step that writes, Gather(), Publish()
//   get     PinOf() what is here, Load() and Flush() what is in host memory, Hold() what is leased
//   worker  Attach(), Close(), WritesOver(), ProcessGone()
//   swap    grants(), line(), CopyOut(), CopyIn()
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_TIER_H_
#define KVTIER_AGENT_GPU_GPU_TIER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/agent_stats.h"
#include "agent/block_run.h"
#include "agent/gpu/gpu_copies.h"
#include "agent/gpu/gpu_evict.h"
#include "agent/gpu/gpu_load.h"
#include "agent/gpu/gpu_offload.h"
#include "agent/gpu/gpu_resize.h"
#include "agent/gpu/gpu_workers.h"
#include "agent/gpu/slot_grants.h"
#include "agent/gpu/slot_line.h"
#include "agent/index/block_index.h"
#include "agent/index/evict.h"
#include "agent/index/gpu_blocks.h"
#include "core/block_lengths.h"
#include "core/task.h"
#include "core/waits.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/lane_runner.h"

namespace kvtier {

// Blocks in one copy out of the pool at a commit: 0.6 ms on PCIe 5.0 for blocks of 2 MiB.
inline constexpr size_t kMaxBlocksGathered = 16;

class GpuTier {
 public:
  struct Options {
    uint64_t bytes = 0;         // Memory of the pool.
    uint64_t max_bytes = 0;     // Memory that it may grow to; less than `bytes`: `bytes`.
    uint64_t handle_bytes = 0;  // Size of a handle of it; 0: as GpuPool chooses.
    uint64_t block_bytes = 0;   // Size of the blocks that the pool is for.
    // Domain of the tenant that owns the pool. A process that maps the pool can read all of it.
    DomainId domain{};
    EvictionPolicy eviction = EvictionPolicy::kLearnt;
  };
  // Memory on one device, and the lanes that fill it.
  struct Memory {
    Device* device = nullptr;  // Not owned.
    std::unique_ptr<LaneRunner> lanes;
    std::unique_ptr<GpuPool> pool;
    DomainId domain{};
    EvictionPolicy eviction = EvictionPolicy::kLearnt;
  };
  // The node around it; not owned.
  struct Node {
    Executor* executor = nullptr;
    ByteThreads* byte_threads = nullptr;
    TaskScope* scope = nullptr;
    Waits* waits = nullptr;
    BlockIndex* index = nullptr;
    BlockChanges* changes = nullptr;
    Evictor* evictor = nullptr;
    AgentStats* stats = nullptr;
  };
  // A slot that a worker may write, and the worker's own hold on it.
  struct Reserved {
    GpuSlot slot;
    GpuHold writer;
  };

  // Takes the pool's memory, and pins `arena`, from and to which blocks of its domain move.
  // `lanes_executor` runs the calls into the device. Errors: the device's.
  static absl::StatusOr<Memory> TakeMemory(Device* device, Executor* executor,
                                           Executor* lanes_executor, const Options& options,
                                           std::span<std::byte> arena);
  GpuTier(Memory memory, const Node& node);
  GpuTier(const GpuTier&) = delete;
  GpuTier& operator=(const GpuTier&) = delete;

  // Returns whether the pool is this domain's, and each block of such lengths fills a slot of it.
  bool Serves(DomainId domain, const BlockLengths& lengths) const;

  // Takes a slot for the session to write; evicts for it. Errors: kResourceExhausted.
  absl::StatusOr<Reserved> Reserve(SessionId session);
  // Checks that `step` of the session has begun, so that its end can be awaited. Errors:
  // kInvalidArgument, naming the step: it has not begun. REQUIRES of this and AwaitStep(): the
  // session has a signal page here.
  absl::Status CheckStep(SessionId session, uint64_t step);
  // Returns whether the session's step has ended by `deadline`, so that its writes are complete.
  // Returns false also if its worker died in the step.
  Task<bool> AwaitStep(SessionId session, uint64_t step, absl::Time deadline);
  // Copies blocks out of written slots into host memory, in room that it makes there. Sets `host`
  // of each block that arrived. The copy ends before the blocks are summed or published. REQUIRES:
  // `gpu` and `meta` of each are set.
  Task<void> Gather(std::vector<CopiedBlock>* blocks);
  // Lets the block be found in the pool. REQUIRES: its bytes are those of the meta's sum.
  void Publish(const BlockMeta& meta, GpuSlot slot, const ReuseHint& hint);

  // Pins the block in the pool; nullopt: it is not there.
  std::optional<Pin> PinOf(const BlockKey& key) { return blocks_.PinOf(key); }
  // Takes the block's pin in host memory and starts its load, or joins the one in flight; it moves
  // with the next Flush(). Null: no slot could be freed.
  SharedLoad Load(Pin host_pin, const ReuseHint& hint) {
    return loader_.Start(std::move(host_pin), hint);
  }
  void Flush() { loader_.Flush(); }
  // Returns the session's own hold on a block that is pinned here; nullopt: the block lies in the
  // part of the pool that is to be given back, and gets no new leases.
  std::optional<GpuHold> Hold(SessionId session, const Pin& pin);

  // Copies slots that workers were granted to host memory, and back; both ends are taken already.
  // REQUIRES and errors: GpuCopies'.
  Task<absl::Status> CopyOut(std::span<CopiedBlock> blocks) {
    return copies_.Offload(blocks, CopyUrgency::kForeground);
  }
  Task<absl::Status> CopyIn(std::span<CopiedBlock> blocks) { return copies_.Onboard(blocks); }

  // Drops the block unless somebody holds it or a child of it is here.
  void Drop(const BlockKey& key);
  // Drops the cheapest `limit` of the blocks that nobody holds; returns how many.
  uint64_t EvictSome(uint64_t limit) { return evictor_.EvictSome(limit); }
  // Makes room ahead of need: after slots were taken.
  void Pump() { offloader_.Pump(); }

  // Returns the session's signal page. Errors: GpuWorkers::Attach()'s.
  absl::StatusOr<const SignalPage*> Attach(SessionId session) { return workers_.Attach(session); }
  // Closes a session that hung up. Returns how many slots were granted to it, which it may still
  // write.
  size_t Close(SessionId session);
  // Notes that nothing of the session writes slots any more, except steps that have not ended.
  void WritesOver(SessionId session);
  // Notes that the process of the session is gone.
  void ProcessGone(SessionId session) { workers_.ProcessGone(session); }

  // Ends all waits for steps soon, and lets no resize begin.
  void EndWaits();
  // Ends the copies that make room ahead of need.
  void Stop() { offloader_.Stop(); }
  void Audit() const;

  const Device& device() const { return *memory_.device; }
  DomainId domain() const { return memory_.domain; }
  GpuPool& pool() const { return *memory_.pool; }
  GpuBlocks& blocks() { return blocks_; }
  const GpuBlocks& blocks() const { return blocks_; }
  GpuWorkers& workers() { return workers_; }
  const GpuCopies& copies() const { return copies_; }
  SlotGrants& grants() { return grants_; }
  SlotLine& line() { return line_; }
  GpuResizer& resizer() { return resizer_; }
  const GpuStats& stats() const { return stats_; }

 private:
  const Memory memory_;
  const Node node_;
  GpuStats stats_;
  GpuBlocks blocks_;
  GpuWorkers workers_;
  GpuEvictor evictor_;
  GpuCopies copies_;
  GpuOffloader offloader_;
  GpuLoader loader_;
  GpuResizer resizer_;
  SlotGrants grants_;
  SlotLine line_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_TIER_H_
