#include "core/socket_peer.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace kvtier {
namespace {

// SO_PEERPIDFD of x86 and ARM; headers of before Linux 6.5 do not name it.
constexpr int kPeerPidfd = 77;
// File system in which each process has an inode of its own. Before it, all pidfds had the same.
constexpr auto kPidFileSystem = 0x50494446;  // PID_FS_MAGIC

// Bits that keep a user's and a pid's numbers apart from inodes.
constexpr uint64_t kOfPid = uint64_t{1} << 62;
constexpr uint64_t kOfUser = uint64_t{1} << 63;

// Returns the inode of the process at the other end; 0: there is none of its own.
uint64_t ProcessInode(int fd) {
  const int process = PeerPidfd(fd);
  if (process < 0) return 0;
  struct statfs system{};
  struct stat about{};
  const bool known = fstatfs(process, &system) == 0 && system.f_type == kPidFileSystem &&
                     fstat(process, &about) == 0;
  close(process);
  return known ? about.st_ino : 0;
}

}  // namespace

int PeerPidfd(int fd) {
  int process = -1;
  socklen_t size = sizeof(process);
  return getsockopt(fd, SOL_SOCKET, kPeerPidfd, &process, &size) == 0 ? process : -1;
}

std::optional<SocketPeer> PeerOf(int fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  SocketPeer peer{.uid = credentials.uid, .pid = credentials.pid, .caller = ProcessInode(fd)};
  if (peer.caller == 0 && peer.pid > 0) peer.caller = kOfPid | static_cast<uint64_t>(peer.pid);
  if (peer.caller == 0) peer.caller = kOfUser | peer.uid;
  return peer;
}

}  // namespace kvtier
