// ChildProcess runs another of our programs, found beside this one, as long as the object lives.
#ifndef KVTIER_BENCH_CHILD_PROCESS_H_
#define KVTIER_BENCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kvtier::bench {

class ChildProcess {
 public:
  // Starts `program` with `flags`; its stderr is appended to the file `log`. Errors: kUnavailable,
  // with errno's text.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const std::string& program,
                                                             const std::vector<std::string>& flags,
                                                             const std::string& log);
  // Kills the process, and waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  const pid_t pid_;
};

// Makes a directory for one process. Its path is short, for sockets, and it is on a real file
// system, for disks. The caller removes it.
std::string MakeScratchDirectory();

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_CHILD_PROCESS_H_
