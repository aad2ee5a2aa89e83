// WorkerPool is KV memory of a worker that its lanes copy from and to: tensors that an
// inference engine owns and registers. What it holds is the worker's business; blocks leave
// it by Offload() and come by Onboard().
//
// Never touched: anything outside the registered tensors, and slots that no call named.
// docs/design/client.md has an example.
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
#include "client/lanes/compute_mark.h"
#include "client/lanes/job_hooks.h"
#include "client/lanes/kv_tensors.h"
#include "client/lanes/lane_job.h"
#include "client/lanes/offload_flow.h"
#include "client/lanes/pool_memory.h"
#include "client/lanes/worker_lanes.h"
#include "tier_gpu/plan/block_plan.h"

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
  ReuseHint hint{};  // Hint of the blocks, as KeySequence::hint.
};

struct LaneOnboardOptions {
  // Of the lease; what is not in host memory by then is a miss. The copy takes what it
  // takes: whoever has a deadline stops waiting for the job, whose slots stay taken.
  std::optional<absl::Duration> timeout{};
  // kLayerWise: as LaneJob says.
  PlanOrder order = PlanOrder::kWhole;
  // Nothing is written before: a step that still reads the slots. It is waited for behind the
  // lease.
  ComputeMark after{};
  absl::Duration mark_timeout = absl::Seconds(10);  // How long `after` is waited for.
  JobHooks hooks{};
  ReuseHint hint{};  // Hint of the blocks.
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

  const BlockForm& form() const { return memory_->form; }

 private:
  WorkerPool(WorkerLanes* lanes, std::shared_ptr<PoolMemory> memory)
      : lanes_(lanes), memory_(std::move(memory)) {}
  absl::Status Check(const KeyedSlots& blocks) const;
  absl::Status CheckOnce(const KeyedSlots& blocks) const;
  template <typename Work>
  absl::Status Start(CopyDirection direction, std::shared_ptr<Work> work,
                     Task<WorkerLanes::Tell> (*flow)(const LaneParts&, std::shared_ptr<Work>));

  WorkerLanes* const lanes_;
  std::shared_ptr<PoolMemory> memory_;  // Its region goes on the lanes' thread.
  absl::Mutex mu_;
  size_t jobs_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_WORKER_POOL_H_
