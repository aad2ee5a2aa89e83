// SocketPeer is the process at the other end of a connected Unix socket, as the kernel names it.
#ifndef KVTIER_CORE_SOCKET_PEER_H_
#define KVTIER_CORE_SOCKET_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace kvtier {

struct SocketPeer {
  uid_t uid = 0;
  pid_t pid = 0;  // 0: the process is in another PID namespace.
  // Number under which the process is counted. Where the kernel gives each process a file (6.9 on),
  // it is of this process alone in every PID namespace; else it is that of the pid, and of the user
  // where the pid is 0.
  uint64_t caller = 0;
};

// Returns nullopt when the kernel does not say.
std::optional<SocketPeer> PeerOf(int fd);

// Returns a pidfd of the process that connected the other end; -1: the kernel (before 6.5) has
// none.
int PeerPidfd(int fd);

}  // namespace kvtier

#endif  // KVTIER_CORE_SOCKET_PEER_H_
