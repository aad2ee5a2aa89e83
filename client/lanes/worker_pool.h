// WorkerPool is KV memory of a worker from and to which its lanes copy: tensors that an inference
// engine owns and registers. The worker decides what the pool holds; Offload() copies blocks out of
// it, and Onboard() copies blocks in.
//
// The lanes never touch memory outside the registered tensors, or slots that no call named.
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

// Blocks of one job, in prefix order: keys[i] names the block that slots[i] holds, or is to hold.
struct KeyedSlots {
  std::span<const EngineKey> keys;
  std::span<const uint32_t> slots;
};

struct OffloadOptions {
  std::optional<EngineKey> parent{};  // Key before keys[0]; absent: keys[0] is a root.
  ComputeMark after{};                // Mark before which nothing is read.
  absl::Duration mark_timeout = absl::Seconds(10);  // Longest wait for `after`.
  JobHooks hooks{};
  ReuseHint hint{};  // Hint of the blocks, as KeySequence::hint.
};

struct LaneOnboardOptions {
  // Timeout of the lease; blocks that are not in host memory by then are misses. It does not bound
  // the copy: a caller with a deadline stops waiting for the job, whose slots stay taken.
  std::optional<absl::Duration> timeout{};
  // Order of the copies. kLayerWise: see LaneJob.
  PlanOrder order = PlanOrder::kWhole;
  // Mark before which nothing is written, for example that of a step that still reads the slots.
  // The job waits for it after it has the lease.
  ComputeMark after{};
  absl::Duration mark_timeout = absl::Seconds(10);  // Longest wait for `after`.
  JobHooks hooks{};
  ReuseHint hint{};  // Hint of the blocks.
};

// WorkerPool copies blocks of one engine. Thread-safe.
class WorkerPool {
 public:
  // Registers the tensors. REQUIRES: the tensors stay as long as the pool. Errors:
  // kInvalidArgument, as LayOut() and Device::AdoptRegion(), naming field and value;
  // kResourceExhausted, as Client::RegisterSpace(); kUnavailable, the device is lost.
  static absl::StatusOr<std::unique_ptr<WorkerPool>> Register(WorkerLanes* lanes,
                                                              const KvTensors& tensors,
                                                              const SpaceSpec& spec);
  // Waits for every job. A copy cannot be cancelled: if the device never ends one, the destructor
  // waits until the device is lost.
  ~WorkerPool();
  // Leaves the object as it is in a forked child.
  static void operator delete(WorkerPool* pool, std::destroying_delete_t) {
    DestroyUnlessForked(pool);
  }

  // Offload() and Onboard() start a job and return. The slots belong to the job until it is done;
  // those of an offload may be read meanwhile. Errors, in which case nothing was started:
  // kInvalidArgument, naming what: keys and slots of different numbers, more than Client::kMaxKeys,
  // a slot that does not exist or, in an onboard, is named twice, a timeout that is not positive;
  // kResourceExhausted, WorkerLanes::kMaxJobs are running (retry when one is done).

  // Publishes copies of the blocks in host memory, in the background; the job's blocks() says how
  // many. Blocks that the node has already are not copied.
  absl::StatusOr<std::shared_ptr<LaneJob>> Offload(const KeyedSlots& blocks,
                                                   const OffloadOptions& options = {});
  // Copies the leading run of blocks that is there into the slots, ahead of all offloads.
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
  std::shared_ptr<PoolMemory> memory_;  // Its region is destroyed on the lanes' thread.
  absl::Mutex mu_;
  size_t jobs_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_WORKER_POOL_H_
