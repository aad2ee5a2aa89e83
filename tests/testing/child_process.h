// ChildProcess is one program that a test runs beside itself, to stop, hang or kill it. It ends
// with the test, however the test ends.
#ifndef KVTIER_TESTS_TESTING_CHILD_PROCESS_H_
#define KVTIER_TESTS_TESTING_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvtier::testing {

// ChildProcess runs a program and ends it. Start it on a thread that lives as long as the process
// is wanted: the kernel kills it when that thread ends. Not thread-safe.
class ChildProcess {
 public:
  // Runs `words[0]` with the rest as its arguments, and appends both of its outputs to the file
  // `log`. It inherits no descriptor of the test. Errors: kUnavailable, the system's.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& words,
                                                             const std::string& log);
  ~ChildProcess();  // Kills it, if it still runs.
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }
  bool Running() { return !Wait(absl::ZeroDuration()).has_value(); }
  // Sends the signal; with SIGSTOP, returns when all its threads have stopped.
  void Signal(int signal);
  void Kill();  // Sends SIGKILL and waits until it is gone, with its locks and sockets.
  // Returns its exit status, or minus the signal that ended it; nullopt: it still ran after
  // `limit`.
  std::optional<int> Wait(absl::Duration limit);

 private:
  ChildProcess(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}

  const pid_t pid_;
  const int pidfd_;
  std::optional<int> ended_;
};

// Returns the path of this build's program, in KVTIER_BIN_DIR or in the folder of the build.
std::string ProgramPath(const std::string& name);

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_CHILD_PROCESS_H_
