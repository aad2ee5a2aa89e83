#include "core/process_id.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/check.h"

namespace kvtier {
namespace {

// Of proc_pid_stat(5), counted from the state, which follows the name in brackets.
constexpr size_t kStartTimeField = 22 - 3;
// SO_PEERPIDFD of x86 and ARM; headers of before Linux 6.5 do not name it.
constexpr int kPeerPidfd = 77;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

std::optional<ProcessId> FindProcess(pid_t pid) {
  if (pid <= 0) return std::nullopt;
  const std::string text = ReadAll(absl::StrCat("/proc/", pid, "/stat"));
  // The name may contain whatever its owner likes, brackets too: the last one ends it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const absl::string_view rest = absl::string_view(text).substr(name_end + 1);
  const std::vector<absl::string_view> fields = absl::StrSplit(rest, ' ', absl::SkipEmpty());
  ProcessId found{.pid = pid};
  if (fields.size() <= kStartTimeField ||
      !absl::SimpleAtoi(fields[kStartTimeField], &found.started)) {
    return std::nullopt;
  }
  return found;
}

ProcessId ThisProcess() {
  const std::optional<ProcessId> found = FindProcess(getpid());
  KVT_CHECK(found.has_value());
  return *found;
}

int WatchProcess(const ProcessId& process) {
  if (process.pid <= 0) return -1;
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd < 0) return -1;
  // Looked at while we hold on to it: no other process can have the number meanwhile.
  if (FindProcess(process.pid) == process) return fd;
  close(fd);
  return -1;
}

int WatchPeer(int socket_fd, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket_fd, SOL_SOCKET, kPeerPidfd, &fd, &size) == 0) return fd;
  return pid <= 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

bool HasEnded(const ProcessId& process) {
  if (process.pid <= 0) return false;
  const int fd = WatchProcess(process);
  if (fd < 0) return FindProcess(process.pid) != process;
  pollfd ended{.fd = fd, .events = POLLIN, .revents = 0};
  const bool has = poll(&ended, 1, 0) > 0;
  close(fd);
  return has;
}

ProcessScope ThisScope() {
  ProcessScope scope{.boot = ReadAll("/proc/sys/kernel/random/boot_id")};
  while (!scope.boot.empty() && scope.boot.back() == '\n') scope.boot.pop_back();
  struct stat facts{};
  if (stat("/proc/self/ns/pid", &facts) == 0) scope.pid_namespace = facts.st_ino;
  return scope;
}

}  // namespace kvtier
