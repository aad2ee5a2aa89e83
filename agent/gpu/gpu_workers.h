// GpuWorkers knows which sessions work on one GPU pool: each has a number in the slot table, and a
// signal page in which it says which of its steps began and ended. The table holds slots that a
// worker was leased, or given to write, under the worker's number, so that a slot is used again
// only after the steps that may read or write it.
//
// A session that hangs up may be a process that is still dying, with work of its own on the device.
// Its number and its holds end when the process is gone, or when its signal page says that no step
// of it runs.
//
// Executor thread only.
#ifndef KVTIER_AGENT_GPU_GPU_WORKERS_H_
#define KVTIER_AGENT_GPU_GPU_WORKERS_H_

#include <cstddef>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "agent/block_run.h"
#include "core/executor.h"
#include "core/task_scope.h"
#include "tier_gpu/gpu_pool.h"
#include "tier_gpu/step_words.h"
#include "tier_gpu/worker_hold.h"

namespace kvtier {

class GpuWorkers {
 public:
  // Does not own its arguments.
  GpuWorkers(Device* device, GpuPool* pool, Executor* executor, TaskScope* scope)
      : table_(&pool->table()), words_(device, &pool->table(), executor, scope) {}
  // Ends every worker's place: no worker is on the pool any more. REQUIRES: no hold is left.
  ~GpuWorkers();
  GpuWorkers(const GpuWorkers&) = delete;
  GpuWorkers& operator=(const GpuWorkers&) = delete;

  // Returns the session's page, which it gets with its number when it first asks. Valid until
  // Close(). Errors: kResourceExhausted, every number is taken; the device's.
  absl::StatusOr<const SignalPage*> Attach(SessionId session);
  // Returns the session's worker; nullptr: the session has no number.
  std::shared_ptr<const GpuWorker> Find(SessionId session) const;
  // Returns a hold of the session on a slot that is held already; empty if the session has no
  // number.
  GpuHold Hold(SessionId session, SlotRef slot);
  // Returns the steps that the session's worker has begun, as its words say now.
  BegunSteps StepsOf(SessionId session);

  // Closes a session that hung up: the rest of its work counts until it has ended.
  void Close(SessionId session);
  // Notes that the process of a session that hung up is gone, and its context on the device with
  // it.
  void ProcessGone(SessionId session);
  // Reads the words of the workers, and ends the places of workers that hung up and whose steps
  // have ended.
  void Sweep();

  StepWords* words() { return &words_; }
  // Returns the number of workers, including those that hung up.
  size_t size() const { return workers_.size(); }

 private:
  // Ends the worker's holds and its place in the slot table.
  void End(GpuWorker* worker);

  SlotTable* const table_;
  StepWords words_;
  absl::flat_hash_map<SessionId, std::shared_ptr<GpuWorker>> workers_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_GPU_GPU_WORKERS_H_
