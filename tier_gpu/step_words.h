// StepWords connect the steps of workers, which run on the workers' own lanes, to the slot table.
// Each worker shares a signal page with the agent, where it says which of its steps began and
// which ended on the device. So a slot that was given up is reused only after the compute that read
// it, and a block leaves the pool only after the compute that wrote it. Nothing here assumes that a
// step has ended because enough time has passed.
//
// Executor thread only. Each worker has a page of its own, so no worker can write for another.
#ifndef KVTIER_TIER_GPU_STEP_WORDS_H_
#define KVTIER_TIER_GPU_STEP_WORDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/event.h"
#include "core/executor.h"
#include "core/task.h"
#include "core/task_scope.h"
#include "tier_gpu/device/device.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/tables/slot_table.h"

namespace kvtier {

// Words of a worker's page. The brackets name the writer.
enum class StepWord : size_t {
  kBegun = 0,    // [worker, host] Written before it submits anything of the step.
  kRetired = 1,  // [worker, host or compute lane] Written after everything of the step.
  // [worker, host] Number of bytes that hold no token in the slots that the worker was granted.
  // Nothing waits for this word, and it may fall.
  kUnusedBytes = 2,
};

// Maximum time for which the end of a step stays unseen while a flow waits for it.
inline constexpr absl::Duration kStepPollInterval = absl::Microseconds(100);

class StepWords {
 public:
  // Owns none of these. Workers are numbered from 1; number 0 is the agent itself.
  StepWords(Device* device, SlotTable* table, Executor* executor, TaskScope* scope);
  ~StepWords() = default;
  StepWords(const StepWords&) = delete;
  StepWords& operator=(const StepWords&) = delete;

  // Assigns a number and a page to a new worker. Errors: kResourceExhausted, every number is taken,
  // or no memory; the device's.
  absl::StatusOr<PoolWorker> Attach();
  // Removes a worker that is gone and of which nothing runs any more: its holds end, flows that
  // wait for its words go on, and its number is free. REQUIRES, also for page(): attached.
  void Detach(PoolWorker worker);
  const std::shared_ptr<const SignalPage>& page(PoolWorker worker) const { return of(worker).page; }

  // Reads the words and tells the slot table which steps began and which retired. Call it before
  // slots are released and before free slots are looked for.
  void Observe();
  // Returns true when everything of the worker's step has ended, so that what the step wrote is
  // complete and may be copied out. Returns false if that has not happened by `deadline`, or the
  // worker is gone. The wait happens here and not in a lane, because a worker that never ends a
  // step would hold up the lane for all others. Errors: kInvalidArgument, the step has not begun.
  Task<absl::StatusOr<bool>> Retired(PoolWorker worker, uint64_t step, absl::Time deadline);
  // Ends all waits in Retired() as if their deadlines had come. Later calls of Retired() do not
  // wait.
  void EndWaits();
  // Returns the worker's kUnusedBytes; also 0 if it wrote nothing.
  uint64_t UnusedBytes(PoolWorker worker) const;

 private:
  struct Worker {
    std::shared_ptr<const SignalPage> page;  // Page of the worker; null: no worker is attached.
    uint64_t attachment = 0;                 // Number of workers that have had this number.
  };
  const Worker& of(PoolWorker worker) const { return workers_[static_cast<size_t>(worker)]; }
  Worker& of(PoolWorker worker) { return workers_[static_cast<size_t>(worker)]; }
  void ObserveOne(PoolWorker worker);
  Task<void> Poll();

  Device* const device_;
  SlotTable* const table_;
  Executor* const executor_;
  TaskScope* const scope_;
  std::vector<Worker> workers_;  // Workers by number; the agent's own entry is empty.
  // Event that is set at the next poll; null: no poll is scheduled.
  std::shared_ptr<Event> polled_;
  bool waits_ended_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_STEP_WORDS_H_
