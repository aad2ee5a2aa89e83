// Signals of a daemon: which of them end it, and which do nothing.
#ifndef KVTIER_CORE_PROGRAM_SIGNALS_H_
#define KVTIER_CORE_PROGRAM_SIGNALS_H_

#include <signal.h>

#include <thread>

#include "core/start_progress.h"

namespace kvtier {

// Blocks SIGTERM and SIGINT, and returns them for sigwait(). Ignores SIGHUP, SIGUSR1, SIGUSR2 and
// SIGPIPE: a terminal or a reader of the log that goes away, or a habit from other daemons, must
// not cost the blocks in memory. Call it before any thread starts, because threads inherit it.
sigset_t TakeProgramSignals();

// EndsWhileStarting ends the process with status 0, at once and whatever its start waits for, when
// one of the signals comes. Nothing of a start needs to be undone: what it writes to disks survives
// a crash, and the system takes back its memory. A signal that comes after its destruction waits
// for sigwait().
class EndsWhileStarting {
 public:
  // `progress` says in the log what the start was doing; it outlives this object. REQUIRES:
  // TakeProgramSignals() returned `signals`.
  EndsWhileStarting(const sigset_t& signals, const StartProgress* progress);
  ~EndsWhileStarting();
  EndsWhileStarting(const EndsWhileStarting&) = delete;
  EndsWhileStarting& operator=(const EndsWhileStarting&) = delete;

 private:
  void Run(sigset_t signals);

  const StartProgress* const progress_;
  const int signal_fd_;  // Readable while a signal waits.
  const int stop_fd_;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_PROGRAM_SIGNALS_H_
