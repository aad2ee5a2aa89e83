// WorkerSteps numbers the steps of a worker and writes them to its signal pages; nothing else does.
// A step begins before compute touches slots of the GPU pool and ends when it is done with them.
// Until then the agent gives slots that the worker released to nobody else.
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
  // Begins the next step on this page and returns its number; 0: no page, so nothing waits.
  uint64_t Begin(std::shared_ptr<const StepPage> page) ABSL_LOCKS_EXCLUDED(mu_);
  // Tells that `step` and all steps before it have ended, on the pages where they began, even when
  // their sessions are over.
  void End(uint64_t step) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Open {
    uint64_t step;
    std::shared_ptr<const StepPage> page;
  };
  absl::Mutex mu_;
  uint64_t begun_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<Open> open_ ABSL_GUARDED_BY(mu_);
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_WORKER_STEPS_H_
