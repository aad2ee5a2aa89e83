#include "core/program_signals.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/log.h"

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

EndsWhileStarting::EndsWhileStarting(const sigset_t& signals, const StartProgress* progress)
    : progress_(progress),
      signal_fd_(signalfd(-1, &signals, SFD_CLOEXEC)),
      stop_fd_(eventfd(0, EFD_CLOEXEC)) {
  KVT_CHECK(signal_fd_ >= 0 && stop_fd_ >= 0);
  thread_ = std::thread([this, signals] { Run(signals); });
}

EndsWhileStarting::~EndsWhileStarting() {
  const uint64_t one = 1;
  KVT_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(signal_fd_);
  close(stop_fd_);
}

void EndsWhileStarting::Run(sigset_t signals) {
  std::array<pollfd, 2> wait = {pollfd{.fd = stop_fd_, .events = POLLIN, .revents = 0},
                                pollfd{.fd = signal_fd_, .events = POLLIN, .revents = 0}};
  while (true) {
    if (poll(wait.data(), wait.size(), -1) < 0) continue;  // EINTR.
    if (wait[0].revents != 0) return;
    if (wait[1].revents == 0) continue;
    int signal = 0;
    sigwait(&signals, &signal);
    Log(LogLevel::kInfo,
        absl::StrCat("stopping on ", strsignal(signal), " while the start ", progress_->Text()));
    _exit(0);
  }
}

}  // namespace kvtier
