// DeviceLanes are lanes for an inference engine that computes on a GPU, with the calls and the jobs
// of HostLanes: they copy blocks between the engine's KV tensors on the GPU and the agent's host
// memory, beside the engine's own streams. An offload keeps blocks, an onboard brings them back.
//
// No call waits: not for the agent, not for a copy, not for the GPU. What a call is to come behind
// (EngineWork: the step that writes the blocks, or still reads them) is marked when it is called,
// and waited for by the lanes. Without an agent jobs fail, within the client's timeouts.
//
// In a forked child every job has failed as soon as it is started.
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
  EngineWork after{};  // What computes the blocks.
  ReuseHint hint{};    // Hint of the blocks, as KeySequence::hint.
};

struct DeviceOnboardOptions {
  std::optional<absl::Duration> timeout{};  // As HostLanes::Onboard()'s.
  EngineWork after{};                       // What still reads the slots.
  // A cudaEvent_t that is recorded behind the copies; null: none. It is recorded when the copies
  // are submitted, which HostJob::recorded() says; a stream that waits for it before does not wait
  // for them. The blocks are proven behind it: what computes on them before done() is void where
  // the results say so. REQUIRES: it stays until the job is done.
  void* record = nullptr;
  ReuseHint hint{};  // Hint of the blocks.
};

// Thread-safe.
class DeviceLanes {
 public:
  // How long a job waits for the engine's work that it is to come behind.
  static constexpr absl::Duration kWorkTimeout = absl::Seconds(10);

  // The tensors are memory of `device`, by the addresses that it sees. REQUIRES: `client`, which is
  // the device's, and the tensors outlive the lanes. Errors: kInvalidArgument, naming the field and
  // the value: as Client::SpecOf() and WorkerPool::Register(); kUnavailable, the process was
  // forked, or the device is lost.
  static absl::StatusOr<std::unique_ptr<DeviceLanes>> Open(Client* client, SpaceHandle space,
                                                           const KvTensors& tensors,
                                                           std::shared_ptr<LaneDevice> device);
  ~DeviceLanes() { Close(); }
  // In a forked child they are left as they are.
  static void operator delete(DeviceLanes* lanes, std::destroying_delete_t) {
    DestroyUnlessForked(lanes);
  }

  // Waits for all jobs, within the client's timeouts and kWorkTimeout: a device's copy cannot be
  // taken back. The tensors are not touched any more. Idempotent. REQUIRES: one thread at a time.
  void Close() ABSL_LOCKS_EXCLUDED(mu_);

  // Both start a job and return. keys[i], of a run in prefix order, names what slots[i] holds, or
  // is to hold. The slots are not touched before `after` has ended: of an offload what computes
  // them, of an onboard what still reads them. Errors, and then nothing was started:
  // kInvalidArgument, naming what: keys and slots of different numbers, more than Client::kMaxKeys,
  // a slot that is not there or, in an onboard, twice, a negative timeout, work or an event of a
  // device without streams; kResourceExhausted, WorkerLanes::kMaxJobs of the direction are under
  // way (retry when one is done); kFailedPrecondition, the lanes are closed, or the stream captures
  // a graph.

  // Stores copies of the blocks, as HostLanes::Offload() does.
  absl::StatusOr<std::shared_ptr<HostJob>> Offload(std::span<const EngineKey> keys,
                                                   const std::optional<EngineKey>& parent,
                                                   std::span<const uint32_t> slots,
                                                   const DeviceOffloadOptions& options = {})
      ABSL_LOCKS_EXCLUDED(mu_);
  // Brings blocks, as HostLanes::Onboard() does. They arrive together: where one is damaged, or the
  // lease ends, all results are false, and what the slots hold is void.
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
  // Returns what records the event behind the job's copies.
  absl::StatusOr<std::function<void(const LayerMark&)>> RecordHook(
      const std::shared_ptr<HostJob>& job, void* event) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Returns what the pool tells of the job: its end to the queue.
  JobHooks HooksOf(const std::shared_ptr<HostJob>& job) const;
  // Returns the job that `submit` has begun. Errors: as Offload().
  template <typename Submit>
  absl::StatusOr<std::shared_ptr<HostJob>> Start(HostDirection direction,
                                                 std::span<const uint32_t> slots, Submit submit);

  const uint32_t slots_;
  const uint64_t block_bytes_;  // In the tensors.
  const std::shared_ptr<HostQueue> queue_;
  // Held shared by calls, which only enqueue, also where they call CUDA: Close() takes all of this
  // away behind them.
  mutable absl::Mutex mu_;
  std::shared_ptr<LaneDevice> device_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<WorkerPool> pool_ ABSL_GUARDED_BY(mu_);  // Null: closed.
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_DEVICE_LANES_DEVICE_LANES_H_
