#include "client/background_thread.h"

#include <pthread.h>
#include <sched.h>

namespace kvtier {

void BecomeBackgroundThread(const char* name) {
  pthread_setname_np(pthread_self(), name);
  const sched_param no_priority{};
  // A process that may not set this policy keeps its own.
  static_cast<void>(pthread_setschedparam(pthread_self(), SCHED_BATCH, &no_priority));
}

}  // namespace kvtier
