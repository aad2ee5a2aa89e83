// StepWords join the steps of workers, which run on their own lanes, to the slot table:
// each worker has a page of words that it and the agent share, and says there which of
// its steps began and which ended on the device. By them a slot that was given up is
// reused only behind the compute that read it, and a block leaves the pool only behind
// the compute that wrote it. "It must be done by now" is nowhere an edge.
//
// Executor thread only. A page is a worker's own, so that none can speak for another.
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

// The words of a worker's page. Who writes is in brackets.
enum class StepWord : size_t {
  kBegun = 0,    // [worker, host] before it submits anything of the step.
  kRetired = 1,  // [worker, host or compute lane] behind everything of the step.
  // [worker, host] Of the slots that it was granted, the bytes that hold no token. Nobody
  // waits for it, and it goes down as well.
  kUnusedBytes = 2,
};

// How long the end of a step may stay unseen while somebody waits for it.
inline constexpr absl::Duration kStepPollInterval = absl::Microseconds(100);

class StepWords {
 public:
  // None is owned. Workers are numbered from 1: number 0 is the agent itself.
  StepWords(Device* device, SlotTable* table, Executor* executor, TaskScope* scope);
  ~StepWords() = default;
  StepWords(const StepWords&) = delete;
  StepWords& operator=(const StepWords&) = delete;

  // A number and a page for a new worker. Errors: kResourceExhausted, every number is
  // taken, or no memory; the device's.
  absl::StatusOr<PoolWorker> Attach();
  // The worker is gone and nothing of it runs any more: its holds end, those who wait
  // for its words go on, its number is free. REQUIRES of these: attached.
  void Detach(PoolWorker worker);
  const std::shared_ptr<const SignalPage>& page(PoolWorker worker) const { return of(worker).page; }

  // Takes over what the words say. To be called before slots are released, and before
  // free ones are looked for.
  void Observe();
  // True when everything of the worker's step has ended, so that what it wrote is
  // complete and may be copied out; false, when it has not at `deadline`, or the worker
  // is gone. The wait is here and not in a lane, which a worker that never ends a step
  // would hold up for all others. Errors: kInvalidArgument, the step has not begun.
  Task<absl::StatusOr<bool>> Retired(PoolWorker worker, uint64_t step, absl::Time deadline);
  // Who waits in Retired() goes on, as if its deadline had come, and nobody waits there any
  // more.
  void EndWaits();
  // What it says of the slots that it was granted; 0 also when it says nothing.
  uint64_t UnusedBytes(PoolWorker worker) const;

 private:
  struct Worker {
    std::shared_ptr<const SignalPage> page;  // Null: nobody is attached.
    uint64_t attachment = 0;                 // Counts the workers that had this number.
  };
  const Worker& of(PoolWorker worker) const { return workers_[static_cast<size_t>(worker)]; }
  Worker& of(PoolWorker worker) { return workers_[static_cast<size_t>(worker)]; }
  void ObserveOne(PoolWorker worker);
  Task<void> Poll();

  Device* const device_;
  SlotTable* const table_;
  Executor* const executor_;
  TaskScope* const scope_;
  std::vector<Worker> workers_;    // By number; the agent's own has none.
  std::shared_ptr<Event> polled_;  // Set at the next poll; null: nobody polls.
  bool waits_ended_ = false;
};

}  // namespace kvtier

#endif  // KVTIER_TIER_GPU_STEP_WORDS_H_
