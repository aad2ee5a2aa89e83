// DeviceLanes are lanes for an inference engine that computes on a GPU, with the calls and the jobs
// of HostLanes. They copy blocks between the engine's KV tensors on the GPU and the agent's host
// memory, beside the engine's own streams. An offload stores blocks, an onboard copies them back.
//
// No call blocks, neither for the agent nor for a copy nor for the GPU. If a call must come after
// work of the engine (EngineWork: the step that writes the blocks, or still reads them), that work
// is marked at the call, and the lanes wait for the mark. Without an agent jobs fail, within the
// client's timeouts.
//
// In a forked child every job fails as soon as it is started.
#ifndef KVTIER_CLIENT_DEVICE_LANES_DEVICE_LANES_H_
#define KVTIER_CLIENT_DEVICE_LANES_DEVICE_LANES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/client.h"
#include "client/device_lanes/lane_device.h"
#include "client/fork_guard.h"
#include "client/host_lanes/host_job.h"
#include "client/host_lanes/host_queue.h"
#include "client/lanes/kv_tensors.h"
#include "client/lanes/worker_pool.h"
#include "core/block_key.h"
#include "core/reuse_hint.h"
#include "tier_gpu/device/outside_streams.h"

namespace kvtier {

struct DeviceOffloadOptions {
  EngineWork after{};  // Work that computes the blocks.
  ReuseHint hint{};    // Hint of the blocks, as KeySequence::hint.
};

struct DeviceOnboardOptions {
  std::optional<absl::Duration> timeout{};  // Same meaning as in HostLanes::Onboard().
  EngineWork after{};                       // Work that still reads the slots.
  // A cudaEvent_t to record after the copies; null: none. It is recorded when the copies are
  // submitted, which HostJob::recorded() reports; a stream that waits for it earlier does not wait
  // for the copies. The blocks are proven after it: results computed from them before done() are
  // void where the job's results say so. REQUIRES: it stays until the job is done.
  void* record = nullptr;
  ReuseHint hint{};  // Hint of the blocks.
};

// DeviceLanes runs jobs. Thread-safe.
class DeviceLanes {
 public:
  // Maximum time for which a job waits for the engine's work before it.
  static constexpr absl::Duration kWorkTimeout = absl::Seconds(10);

  // Opens lanes. The tensors are memory of `device`, at the addresses that it sees. REQUIRES: the
  // device belongs to `client`; client and tensors outlive the lanes. Errors: kInvalidArgument,
  // naming the field and the value: as Client::SpecOf() and WorkerPool::Register(); kUnavailable,
  // the process was forked, or the device is lost.
  static absl::StatusOr<std::unique_ptr<DeviceLanes>> Open(Client* client, SpaceHandle space,
                                                           const KvTensors& tensors,
                                                           std::shared_ptr<LaneDevice> device);
  ~DeviceLanes() { Close(); }
  // Leaves the object as it is in a forked child.
  static void operator delete(DeviceLanes* lanes, std::destroying_delete_t) {
    DestroyUnlessForked(lanes);
  }

  // Waits for all jobs, within the client's timeouts and kWorkTimeout, because a device's copy
  // cannot be cancelled. The tensors are not touched any more. Idempotent. REQUIRES: one thread at
  // a time.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  // Offload() and Onboard() start a job and return. keys[i], of a run in prefix order, names the
  // block that slots[i] holds, or is to hold. The slots are not touched before `after` has ended:
  // for an offload the work that computes them, for an onboard the work that still reads them.
  // Errors, in which case nothing was started: kInvalidArgument, naming what: keys and slots of
  // different numbers, more than Client::kMaxKeys, a slot that does not exist or, in an onboard, is
  // named twice, a negative timeout, work or an event for a device without streams;
  // kResourceExhausted, WorkerLanes::kMaxJobs of the direction are running (retry when one is
  // done); kFailedPrecondition, the lanes are closed, or the stream captures a graph.

  // Stores copies of the blocks, as HostLanes::Offload() does.
  absl::StatusOr<std::shared_ptr<HostJob>> Offload(std::span<const EngineKey> keys,
                                                   const std::optional<EngineKey>& parent,
                                                   std::span<const uint32_t> slots,
                                                   const DeviceOffloadOptions& options = {})
      ABSL_LOCKS_EXCLUDED(mu_);
  // Copies blocks back, as HostLanes::Onboard() does. They arrive together: if one is damaged, or
  // the lease ends, all results are false, and the content of the slots is void.
  absl::StatusOr<std::shared_ptr<HostJob>> Onboard(std::span<const EngineKey> keys,
                                                   std::span<const uint32_t> slots,
                                                   const DeviceOnboardOptions& options)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Waits until the slots are free, as HostLanes::AwaitCopied() does.
  absl::StatusOr<bool> AwaitCopied(std::span<const uint32_t> slots, absl::Duration timeout);
  HostCopyStats StatsOf(HostDirection direction) const;

 private:
  explicit DeviceLanes(const BlockForm& form)
      : slots_(form.slots),
        block_bytes_(form.rows.raw_bytes()),
        queue_(std::make_shared<HostQueue>(form.slots)) {}
  absl::Status CheckSlots(std::span<const uint32_t> slots) const;
  absl::StatusOr<ComputeMark> MarkOf(const EngineWork& work) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Returns a hook that records the event after the job's copies.
  absl::StatusOr<std::function<void(const LayerMark&)>> RecordHook(
      const std::shared_ptr<HostJob>& job, void* event) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Returns the hooks that report the pool's job to the queue.
  JobHooks HooksOf(const std::shared_ptr<HostJob>& job) const;
  // Returns the job that `submit` has begun. Errors: as Offload().
  template <typename Submit>
  absl::StatusOr<std::shared_ptr<HostJob>> Start(HostDirection direction,
                                                 std::span<const uint32_t> slots, Submit submit);

  const uint32_t slots_;
  const uint64_t block_bytes_;  // Bytes of a block in the tensors.
  const std::shared_ptr<HostQueue> queue_;
  // Calls hold the mutex shared; they only enqueue, even where they call CUDA. Close() holds it
  // alone to destroy the members below, when no call uses them.
  mutable absl::Mutex mu_;
  std::shared_ptr<LaneDevice> device_ ABSL_GUARDED_BY(mu_);
  // Pool of the tensors; null once the lanes are closed.
  std::unique_ptr<WorkerPool> pool_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_DEVICE_LANES_DEVICE_LANES_H_
