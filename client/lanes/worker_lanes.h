// WorkerLanes are a worker's own lanes: copies between its KV memory on one device and
// the agent's host memory, one lane a direction, made in the worker and not by the agent.
// They plan (blocks, geometry) into segments and batches, run a few at a time in each
// direction, onboards ahead of offloads, and keep the agent's host memory pinned, across
// sessions.
//
// WorkerPool is what one uses them through.
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

// LaneParts are what a job's flow works with. The lanes' thread only.
struct LaneParts {
  Client* client = nullptr;
  Device* device = nullptr;
  Executor* executor = nullptr;
  LaneRunner* runner = nullptr;
  ArenaPins* pins = nullptr;
  ProgressWords* words = nullptr;
  OutcomeSlab* outcomes = nullptr;
};

// Thread-safe.
class WorkerLanes {
 public:
  static constexpr size_t kMaxJobs = OutcomeSlab::kJobs;  // Under way, in each direction.
  // How often a session's end is looked for, to pin what comes after it.
  static constexpr absl::Duration kPinInterval = absl::Milliseconds(100);

  // Neither is owned. From here on the device is used on the lanes' thread alone: by them, and by
  // On(). Errors: kInvalidArgument, it was opened without kernels; kUnavailable, it is lost;
  // kResourceExhausted, no memory for the pages of words or the outcomes.
  static absl::StatusOr<std::unique_ptr<WorkerLanes>> Open(Client* client, Device* device);
  // REQUIRES: every pool of it is gone.
  ~WorkerLanes();
  // In a forked child, where its thread does not run, it is left as it is.
  static void operator delete(WorkerLanes* lanes, std::destroying_delete_t) {
    DestroyUnlessForked(lanes);
  }

  // Runs `fn` on the lanes' thread and returns what it returns: how an engine uses the
  // device itself, for its compute lane, which goes on only while somebody calls Poll().
  // `fn` must not block.
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

  // Runs `flow` on the lanes' thread; then, when its place is free again, what it returns,
  // which tells the caller; and `ended`. Errors, and then nothing runs: kResourceExhausted,
  // kMaxJobs are under way in that direction.
  using Tell = absl::AnyInvocable<void()>;
  using Flow = absl::AnyInvocable<Task<Tell>(const LaneParts& parts)>;
  absl::Status Start(CopyDirection direction, Flow flow, absl::AnyInvocable<void()> ended)
      ABSL_LOCKS_EXCLUDED(mu_);

 private:
  // The lanes' own host memory that the device writes to.
  struct Memory {
    std::shared_ptr<const SignalPage> progress;
    std::unique_ptr<OutcomeSlab> outcomes;
  };
  WorkerLanes(Client* client, Device* device, Memory memory);
  void KeepPinned();
  Task<void> RunJob(CopyDirection direction, Flow flow, absl::AnyInvocable<void()> ended);

  ThreadExecutor executor_{"kv-lanes", TimerSlack::kLeast};
  const std::unique_ptr<OutcomeSlab> outcomes_;  // Batches of the runner's may keep some.
  LaneRunner runner_;
  ArenaPins pins_;
  ProgressWords words_;
  const LaneParts parts_;
  std::optional<TaskScope> scope_{std::in_place, &executor_};  // Goes on its own thread.
  absl::Mutex mu_;
  std::array<size_t, kCopyDirections> jobs_ ABSL_GUARDED_BY(mu_){};
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_LANES_WORKER_LANES_H_
