#include "tests/testing/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "core/check.h"

namespace kvtier::testing {
namespace {

// Executes the program. Runs between fork and exec, where only system calls are safe.
[[noreturn]] void Become(char* const* words, int log, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // The parent died before the line above.
  setsid();                             // The terminal's Ctrl-C is the test's alone.
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close_range(STDERR_FILENO + 1, ~0U, 0);
  execv(words[0], words);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  if (access(words[0].c_str(), X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat(words[0], ": ", strerror(errno)));
  }
  const int output = open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (output < 0) return absl::UnavailableError(absl::StrCat(log, ": ", strerror(errno)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(arguments.data(), output, parent);
  close(output);
  if (pid < 0) return absl::UnavailableError(absl::StrCat("fork: ", strerror(errno)));
  // The call is made by number, because glibc 2.36 declares pidfd_open() without C linkage.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  KVT_CHECK(pidfd >= 0);
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, pidfd));
}

ChildProcess::~ChildProcess() {
  Kill();
  close(pidfd_);
}

void ChildProcess::Signal(int signal) {
  if (ended_.has_value()) return;
  kill(pid_, signal);  // The process is not reaped yet, so the id is its own.
  if (signal != SIGSTOP) return;
  // The other threads run on until the thread that takes the signal gets a core and stops them.
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WEXITED | WNOWAIT);
}

void ChildProcess::Kill() {
  Signal(SIGKILL);
  Wait(absl::InfiniteDuration());
}

std::optional<int> ChildProcess::Wait(absl::Duration limit) {
  if (ended_.has_value()) return ended_;
  pollfd end{.fd = pidfd_, .events = POLLIN};
  const int limit_ms =
      limit == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(limit));
  int ready = 0;
  do {
    ready = poll(&end, 1, limit_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return std::nullopt;
  int status = 0;
  KVT_CHECK(waitpid(pid_, &status, 0) == pid_);
  ended_ = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  return ended_;
}

std::string ProgramPath(const std::string& name) {
  const char* const given = std::getenv("KVTIER_BIN_DIR");
  return absl::StrCat(given == nullptr ? KVTIER_BUILT_BIN_DIR : given, "/", name);
}

}  // namespace kvtier::testing
