// ProcessId names a process of this machine so that its number, given to another one
// later, is not mistaken for it.
#ifndef KVTIER_CORE_PROCESS_ID_H_
#define KVTIER_CORE_PROCESS_ID_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace kvtier {

struct ProcessId {
  pid_t pid = 0;         // 0: in a PID namespace that we do not see.
  uint64_t started = 0;  // Clock ticks after the machine's boot.
  friend bool operator==(const ProcessId&, const ProcessId&) = default;
};

// The process that has this number now. nullopt: there is none that we see.
std::optional<ProcessId> FindProcess(pid_t pid);
ProcessId ThisProcess();
// A pidfd of exactly this process, readable when it has ended, for the caller to close.
// -1: it has ended, or cannot be watched here.
int WatchProcess(const ProcessId& process);

// The same of the process that connected the other end of a Unix socket. A kernel from 6.5 on
// has it, also of another PID namespace; an older one does by `pid`, the socket's SO_PEERCRED,
// as long as the process certainly lives. -1: it cannot be watched here.
int WatchPeer(int socket_fd, pid_t pid);

// True of one that has ended for sure, all threads of it: a zombie, too, has.
bool HasEnded(const ProcessId& process);

// Where and since when process numbers mean what they do.
struct ProcessScope {
  std::string boot;            // Drawn by the kernel at each boot.
  uint64_t pid_namespace = 0;  // Numbers of another one are other processes.
  friend bool operator==(const ProcessScope&, const ProcessScope&) = default;
};
ProcessScope ThisScope();

}  // namespace kvtier

#endif  // KVTIER_CORE_PROCESS_ID_H_
