// WorkerSteps numbers the steps of a worker, and alone writes them to its pages: a step
// begins before compute touches slots of the GPU pool and ends when it is done with them.
// Until then the agent gives what the worker let go of to nobody else. Compute is threads,
// which say so themselves, or a device's lane, for which ComputeSteps does (client/lanes).
#ifndef KVTIER_CLIENT_WORKER_STEPS_H_
#define KVTIER_CLIENT_WORKER_STEPS_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/step_page.h"

namespace kvtier {

// Thread-safe. One for all sessions of a client: a number is never used twice.
class WorkerSteps {
 public:
  // Begins the next step, on this session's page. 0: there is none, so nothing waits.
  uint64_t Begin(std::shared_ptr<const StepPage> page) ABSL_LOCKS_EXCLUDED(mu_);
  // `step` and all before it have ended; said on the pages where they began, also when
  // their sessions are over.
  void End(uint64_t step) ABSL_LOCKS_EXCLUDED(mu_);

  // The same for a copy on a lane of its own, which ends when it does: by EndCopy() alone,
  // whatever else began or ended meanwhile. Steps that began after it are told as ended
  // when it has.
  uint64_t BeginCopy(std::shared_ptr<const StepPage> page) ABSL_LOCKS_EXCLUDED(mu_);
  void EndCopy(uint64_t step) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Open {
    uint64_t step;
    std::shared_ptr<const StepPage> page;
    bool copy;
    bool ended = false;
  };
  uint64_t Add(std::shared_ptr<const StepPage> page, bool copy) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells the pages of what has ended, up to the first that has not.
  void Retire() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Mutex mu_;
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_WORKER_STEPS_H_
