// BecomeBackgroundThread() prepares a thread of kvtier that runs in the engine's process.
#ifndef KVTIER_CLIENT_BACKGROUND_THREAD_H_
#define KVTIER_CLIENT_BACKGROUND_THREAD_H_

namespace kvtier {

// Names the calling thread, and has it wait for a core rather than push a running thread off its
// own when it wakes up (SCHED_BATCH). Otherwise, on a machine whose cores are all busy, copies
// begun by an engine's step interrupt that step for milliseconds. `name` has 15 characters at most.
void BecomeBackgroundThread(const char* name);

}  // namespace kvtier

#endif  // KVTIER_CLIENT_BACKGROUND_THREAD_H_
