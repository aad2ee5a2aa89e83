// WorkerLanes are a worker's own lanes: copies between its KV memory on one device and the agent's
// host memory, with one lane in each direction. The worker makes these copies, not the agent. The
// lanes turn blocks and geometry into segments and batches, run a few at a time in each direction,
// onboards before offloads, and keep the agent's host memory pinned, across sessions.
//
// Engines use them through WorkerPool.
#ifndef KVTIER_CLIENT_LANES_WORKER_LANES_H_
#define KVTIER_CLIENT_LANES_WORKER_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/client.h"
#include "client/fork_guard.h"
#include "client/lanes/arena_pins.h"
#include "client/lanes/outcome_slab.h"
#include "client/lanes/progress_words.h"
#include "core/call_on_executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/lane_runner.h"

namespace kvtier {

// LaneParts are the objects that a job's flow uses. The lanes' thread only.
struct LaneParts {
  Client* client = nullptr;
  Device* device = nullptr;
  Executor* executor = nullptr;
  LaneRunner* runner = nullptr;
  ArenaPins* pins = nullptr;
  ProgressWords* words = nullptr;
  OutcomeSlab* outcomes = nullptr;
};

// WorkerLanes runs jobs. Thread-safe.
class WorkerLanes {
 public:
  // Maximum number of running jobs in each direction.
  static constexpr size_t kMaxJobs = OutcomeSlab::kJobs;
  // Interval for noticing a session's end, to pin the memory of the next session.
  static constexpr absl::Duration kPinInterval = absl::Milliseconds(100);

  // Opens lanes. Owns neither argument. From here on the device is used on the lanes' thread only:
  // by the lanes, and by On(). Errors: kInvalidArgument, the device was opened without kernels;
  // kUnavailable, it is lost; kResourceExhausted, no memory for the signal pages or the outcomes.
  static absl::StatusOr<std::unique_ptr<WorkerLanes>> Open(Client* client, Device* device);
  // REQUIRES: every WorkerPool on these lanes is destroyed.
  ~WorkerLanes();
  // Leaves the object as it is in a forked child, where its thread does not run.
  static void operator delete(WorkerLanes* lanes, std::destroying_delete_t) {
    DestroyUnlessForked(lanes);
  }

  // Runs `fn` on the lanes' thread and returns its result. An engine uses the device itself in this
  // way, for its compute lane, which advances only while somebody calls Poll(). `fn` must not
  // block.
  template <typename Fn>
  auto On(Fn fn) {
    return CallOn(&executor_, std::move(fn));
  }
  void Poll() {
    executor_.Post([this] { runner_.Poll(); });
  }
  Client* client() const { return parts_.client; }
  Device* device() const { return parts_.device; }
  ProgressWords* words() { return &words_; }

  // Runs `flow` on the lanes' thread. When the job's place is free again, calls the function that
  // `flow` returned, which informs the caller, and then `ended`. Errors, in which case nothing
  // runs: kResourceExhausted, kMaxJobs are running in that direction.
  using Tell = absl::AnyInvocable<void()>;
  using Flow = absl::AnyInvocable<Task<Tell>(const LaneParts& parts)>;
  absl::Status Start(CopyDirection direction, Flow flow, absl::AnyInvocable<void()> ended)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // Host memory of the lanes that the device writes.
  struct Memory {
    std::shared_ptr<const SignalPage> progress;
    std::unique_ptr<OutcomeSlab> outcomes;
  };
  WorkerLanes(Client* client, Device* device, Memory memory);
  void KeepPinned();
  Task<void> RunJob(CopyDirection direction, Flow flow, absl::AnyInvocable<void()> ended);

  ThreadExecutor executor_{"kv-lanes", TimerSlack::kLeast};
  const std::unique_ptr<OutcomeSlab> outcomes_;  // Outlives runner_, whose batches use some.
  LaneRunner runner_;
  ArenaPins pins_;
  ProgressWords words_;
  const LaneParts parts_;
  std::optional<TaskScope> scope_{std::in_place, &executor_};  // Destroyed on the lanes' thread.
  absl::Mutex mu_;
  std::array<size_t, kCopyDirections> jobs_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_WORKER_LANES_H_
