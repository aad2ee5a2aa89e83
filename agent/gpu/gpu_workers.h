// GpuWorkers knows which sessions work on the GPU pool: each has a number in the slot
// table, and a page of words where it says which of its steps began and ended. What a
// worker was leased or given to write it holds in the table under its number, so that
// a slot is used again only behind the steps that may read or write it.
//
// A session that hangs up may be a process that is still dying, with work of its own on
// the device. Its number, and what it holds, go back when the process is gone, or when
// its words say that nothing of it runs.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_WORKERS_H_
#define KVTIER_AGENT_GPU_GPU_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "agent/sessions/sessions.h"
#include "core/executor.h"
#include "core/task_scope.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/step_words.h"

namespace kvtier {

// One session's place in the pool.
struct GpuWorker {
  SlotTable* table = nullptr;
  StepWords* words = nullptr;
  PoolWorker number{};
  bool hung_up = false;  // Its holds end with its place, all at once.
  bool gone = false;     // The place is another's by now, or nobody's.
};

// A worker's hold on one slot. Move-only; the destructor ends it as of the worker's
// latest step.
class GpuHold {
 public:
  GpuHold() = default;  // Holds nothing.
  // Errors: kAborted, the slot was reused since.
  static absl::StatusOr<GpuHold> Of(std::shared_ptr<const GpuWorker> worker, SlotRef slot);
  GpuHold(GpuHold&&) noexcept = default;
  GpuHold& operator=(GpuHold&& other) noexcept;
  ~GpuHold() { Release(); }
  explicit operator bool() const { return worker_ != nullptr; }
  void Release();

 private:
  std::shared_ptr<const GpuWorker> worker_;
  SlotRef slot_;
};

// The steps that a worker had begun at one moment. They may write what it was given until
// then, also in host memory, where no slot table holds it for them.
class BegunSteps {
 public:
  BegunSteps() = default;  // None.
  // Those of the worker so far; none without a worker.
  explicit BegunSteps(std::shared_ptr<const GpuWorker> worker);
  // All have ended, as far as the words were observed, or nothing of the worker runs any more.
  bool ended() const;

 private:
  std::shared_ptr<const GpuWorker> worker_;
  uint64_t last_ = 0;
};

class GpuWorkers {
 public:
  // None is owned.
  GpuWorkers(Device* device, GpuPool* pool, Executor* executor, TaskScope* scope)
      : table_(&pool->table()), words_(device, &pool->table(), executor, scope) {}
  // Nobody works on the pool any more. REQUIRES: no hold is left.
  ~GpuWorkers();
  GpuWorkers(const GpuWorkers&) = delete;
  GpuWorkers& operator=(const GpuWorkers&) = delete;

  // The session's page, which it gets with its number when it first asks. Valid until
  // Close(). Errors: kResourceExhausted, every number is taken; the device's.
  absl::StatusOr<const SignalPage*> Attach(SessionId session);
  // nullptr: the session has no number.
  std::shared_ptr<const GpuWorker> Find(SessionId session) const;
  // A hold of the session's on a slot that somebody holds; empty when it has no number.
  GpuHold Hold(SessionId session, SlotRef slot);
  // The steps that the session's worker has begun, as its words say now.
  BegunSteps StepsOf(SessionId session);

  // The session hung up: what is left of its work counts until it has ended.
  void Close(SessionId session);
  // The process of a session that hung up is gone, and its context on the device with it.
  void ProcessGone(SessionId session);
  // Takes over what the words say; ends the places of those who hung up and are done.
  void Sweep();

  StepWords* words() { return &words_; }
  size_t size() const { return workers_.size(); }  // Those who hung up included.

 private:
  using Workers = absl::flat_hash_map<SessionId, std::shared_ptr<GpuWorker>>;
  // Its holds end, and its place.
  void End(GpuWorker* worker);

  SlotTable* const table_;
  StepWords words_;
  Workers workers_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_WORKERS_H_
