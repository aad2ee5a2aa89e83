// GuardedCoordinator is the Coordinator and the one mutex that its services share. The lock is held
// for decisions only, never across I/O.
#ifndef KVTIER_COORDINATOR_GUARDED_COORDINATOR_H_
#define KVTIER_COORDINATOR_GUARDED_COORDINATOR_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/coordinator.h"

namespace kvtier {

struct GuardedCoordinator {
  GuardedCoordinator(const Clock* clock, Epoch epoch, const CoordinatorOptions& options)
      : coordinator(clock, epoch, options) {}

  absl::Mutex mu;
  Coordinator coordinator ABSL_GUARDED_BY(mu);
};

}  // namespace kvtier

#endif  // KVTIER_COORDINATOR_GUARDED_COORDINATOR_H_
