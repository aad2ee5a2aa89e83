// WorkerPool is KV memory of a worker that its lanes copy from and to: tensors that an
// inference engine owns and registers, or slots of the node's GPU pool that the agent
// granted. What it holds is the worker's business; blocks leave it by Offload() and come
// by Onboard().
//
// Never touched: anything outside the registered tensors, and slots that no call named
// (of granted memory: that were not granted). docs/design/client.md has an example.
#ifndef KVTIER_CLIENT_LANES_WORKER_POOL_H_
#define KVTIER_CLIENT_LANES_WORKER_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/granted_slots.h"
#include "client/lanes/compute_mark.h"
#include "client/lanes/job_hooks.h"
#include "client/lanes/kv_tensors.h"
#include "client/lanes/lane_job.h"
#include "client/lanes/offload_flow.h"
#include "client/lanes/pool_memory.h"
#include "client/lanes/worker_lanes.h"
#include "tier_gpu/plan/planner.h"
#include "tier_gpu/tables/block_table.h"

namespace kvtier {

// Blocks of one job, in prefix order: keys[i] names what slots[i] holds, or is to hold.
struct KeyedSlots {
  std::span<const EngineKey> keys;
  std::span<const uint32_t> slots;
};

struct OffloadOptions {
  std::optional<EngineKey> parent{};                // Of keys[0]; absent: a root.
  ComputeMark after{};                              // Nothing is read before.
  absl::Duration mark_timeout = absl::Seconds(10);  // How long `after` is waited for.
  JobHooks hooks{};
};

struct LaneOnboardOptions {
  // Of the lease; what is not in host memory by then is a miss. The copy takes what it
  // takes: whoever has a deadline stops waiting for the job, whose slots stay taken.
  std::optional<absl::Duration> timeout{};
  bool local_only = false;
  // kLayerWise: as LaneJob says.
  PlanOrder order = PlanOrder::kWhole;
  // Nothing is written before: a step that still reads the slots. It is waited for behind the
  // lease.
  ComputeMark after{};
  absl::Duration mark_timeout = absl::Seconds(10);  // How long `after` is waited for.
  JobHooks hooks{};
};

// How granted slots are used: a block is its runs one behind the other.
struct GrantedLayout {
  KvAxes axes = KvAxes::kApart;
  KvOrder order = KvOrder::kTokenHead;
};

// Thread-safe.
class WorkerPool {
 public:
  // REQUIRES: the tensors stay as long as the pool. Errors: kInvalidArgument, as LayOut()
  // and Device::AdoptRegion(), naming field and value; kResourceExhausted, as
  // Client::RegisterSpace(); kUnavailable, the device is lost.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Register(WorkerLanes* lanes,
                                                              const KvTensors& tensors,
                                                              const SpaceSpec& spec);
  // Slots are then the numbers of the grant. Copies are steps by themselves; those of
  // compute are the worker's to begin and to end (Client::BeginStep(), WorkerLanes::EndStep()).
  // Errors also: kFailedPrecondition, nothing was granted, or the session that granted it is over.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> OverGranted(WorkerLanes* lanes,
                                                                 GrantedSlots slots,
                                                                 const GrantedLayout& layout,
                                                                 const SpaceSpec& spec);
  // Waits for every job. A copy cannot be taken back: one that the device never ends is
  // waited for until the device is lost.
  ~WorkerPool();
  // In a forked child it is left as it is.
  static void operator delete(WorkerPool* pool, std::destroying_delete_t) {
    DestroyUnlessForked(pool);
  }

  // Each starts a job and returns. The slots are the job's until it is done; those of an
  // offload may be read meanwhile. Errors, and then nothing was started: kInvalidArgument,
  // naming what: keys and slots of different numbers, more than Client::kMaxKeys, a slot
  // that is not there or, in an onboard, twice, a timeout that is not positive;
  // kResourceExhausted, WorkerLanes::kMaxJobs are under way (retry when one is done).

  // Publishes copies of the blocks in host memory, in the background; blocks() of the job
  // says how many. What is cached already is not copied.
  absl::StatusOr<std::shared_ptr<LaneJob>> Offload(const KeyedSlots& blocks,
                                                   const OffloadOptions& options = {});
  // Brings the leading run of blocks that is there, ahead of all offloads.
  absl::StatusOr<std::shared_ptr<LaneJob>> Onboard(const KeyedSlots& blocks,
                                                   const LaneOnboardOptions& options = {});

  // Copies whole blocks inside the pool, as BlockTable asks for before a write: on the device's
  // compute lane, behind what was submitted to it and ahead of what will be. At once, without a
  // job: returns when it is submitted. REQUIRES, of granted slots: the worker is in a step
  // (Client::BeginStep()), which keeps them until the copies have ended. Errors, naming what:
  // kInvalidArgument, a slot as in Offload(), a block copied to itself or a slot that two
  // are copied to, or one is and another from, or a device without kernels; kAborted, the
  // session that granted the slots is over; else Device::CopyInside()'s: then call it again,
  // copies that were submitted may be made twice.
  absl::Status CopyBlocks(std::span<const BlockCopy> copies);

  const KvGeometry& geometry() const { return memory_->geometry; }
  // Of OverGranted(); null: the tensors are the engine's.
  const GrantedSlots* granted() const { return memory_->granted ? &*memory_->granted : nullptr; }

 private:
  WorkerPool(WorkerLanes* lanes, std::shared_ptr<PoolMemory> memory);
  absl::Status Check(const KeyedSlots& blocks) const;
  absl::Status CheckOnce(const KeyedSlots& blocks) const;
  absl::Status CheckSlot(const char* field, size_t i, uint32_t slot) const;
  absl::Status CheckCopies(std::span<const BlockCopy> copies) const;
  template <typename Work>
  absl::Status Start(CopyDirection direction, std::shared_ptr<Work> work,
                     Task<WorkerLanes::Tell> (*flow)(const LaneParts&, std::shared_ptr<Work>));

  WorkerLanes* const lanes_;
  std::shared_ptr<PoolMemory> memory_;  // Its region goes on the lanes' thread.
  std::vector<bool> may_touch_;         // By slot.
  absl::Mutex mu_;
  size_t jobs_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_WORKER_POOL_H_
