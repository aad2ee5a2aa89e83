// Signals of a daemon: which of them end it, and which do nothing.
#ifndef KVTIER_CORE_PROGRAM_SIGNALS_H_
#define KVTIER_CORE_PROGRAM_SIGNALS_H_

#include <signal.h>

namespace kvtier {

// Blocks SIGTERM and SIGINT, and returns them for sigwait(). Ignores SIGHUP, SIGUSR1, SIGUSR2 and
// SIGPIPE: a terminal or a reader of the log that goes away, or a habit from other daemons, must
// not cost the blocks in memory. Call it before any thread starts, because threads inherit it.
sigset_t TakeProgramSignals();

}  // namespace kvtier

#endif  // KVTIER_CORE_PROGRAM_SIGNALS_H_
