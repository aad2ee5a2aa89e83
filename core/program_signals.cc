#include "core/program_signals.h"

namespace kvtier {

sigset_t TakeProgramSignals() {
  for (const int ignored : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) signal(ignored, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

}  // namespace kvtier
