// Debian builds Abseil with its search for lock cycles on: each Lock() then walks a graph
// under a lock that all threads share. Tests keep it; programs that serve turn it off.
#ifndef KVTIER_CORE_LOCK_CHECKS_H_
#define KVTIER_CORE_LOCK_CHECKS_H_

#include "absl/synchronization/mutex.h"

namespace kvtier {

// Turns the checks off for the whole process. Call it before threads start.
inline void TurnOffLockChecks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace kvtier

#endif  // KVTIER_CORE_LOCK_CHECKS_H_
