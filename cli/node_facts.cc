#include "cli/node_facts.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/admin_client.h"
#include "client/handshake.h"
#include "client/packet_socket.h"
#include "core/block_key.h"
#include "core/clock.h"
#include "core/free_memory.h"
#include "core/huge_pages.h"
#include "proto/session_packets.h"
#include "proto/socket_names.h"

namespace kvtier::cli {
namespace {

// A tenant's name that no agent has, since names begin with a letter or a digit.
constexpr char kNobodysTenant[] = "-doctor";

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; not in the headers of Debian 12.
#endif

// Descriptor owns a file descriptor; -1: there is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  // Returns errno of the call that made the object, read right after that call.
  int error() const { return fd_ >= 0 ? 0 : errno; }

 private:
  const int fd_;
};

// Returns the text of a file; empty if it cannot be read.
std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  absl::StripAsciiWhitespace(&text);
  return text;
}

// Result of connect(), and the process that listens: 0 when it is not known here.
struct Listener {
  int error = 0;
  pid_t pid = 0;
};

Listener ConnectTo(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return {.error = ENAMETOOLONG};
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const Descriptor fd(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    // A queue of connections that is full is somebody who listens.
    return {.error = errno == EAGAIN ? 0 : errno};
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  return {.pid = peer.pid};
}

SocketFacts LookAt(const std::string& directory, const char* name, int type, pid_t* agent) {
  SocketFacts facts{.name = name};
  const std::string path = absl::StrCat(directory, "/", name);
  struct stat file{};
  if (stat(path.c_str(), &file) != 0) return facts;
  facts.exists = true;
  facts.is_socket = S_ISSOCK(file.st_mode);
  facts.owner = file.st_uid;
  facts.group = file.st_gid;
  facts.mode = file.st_mode & 07777;
  if (!facts.is_socket) return facts;
  const Listener listener = ConnectTo(path, type);
  facts.connect_error = listener.error;
  if (listener.pid > 0) *agent = listener.pid;
  return facts;
}

std::vector<UidRange> UidMap() {
  std::vector<UidRange> map;
  for (absl::string_view line : absl::StrSplit(TextOf("/proc/self/uid_map"), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    UidRange range;
    if (words.size() == 3 && absl::SimpleAtoi(words[0], &range.inside) &&
        absl::SimpleAtoi(words[1], &range.outside) && absl::SimpleAtoi(words[2], &range.count)) {
      map.push_back(range);
    }
  }
  return map;
}

// Returns whether this process and `agent` are in one namespace of `kind` ("user", "pid", "time").
std::optional<bool> SameNamespace(pid_t agent, const char* kind) {
  if (agent <= 0) return std::nullopt;
  const auto inode = [kind](const std::string& process) {
    struct stat file{};
    const std::string path = absl::StrCat("/proc/", process, "/ns/", kind);
    return stat(path.c_str(), &file) == 0 ? std::optional<ino_t>(file.st_ino) : std::nullopt;
  };
  const std::optional<ino_t> ours = inode("self");
  const std::optional<ino_t> theirs = inode(absl::StrCat(agent));
  if (!ours || !theirs) return std::nullopt;
  return *ours == *theirs;
}

// Returns the words after `name` in the line of a file of /proc that begins with `name`; empty if
// the file has no such line.
std::vector<std::string> WordsAfterName(const std::string& path, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(TextOf(path), '\n')) {
    if (!absl::ConsumePrefix(&line, name)) continue;
    return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  }
  return {};
}

// Returns whether `process` ("self", "1234") is exempt from RLIMIT_MEMLOCK by CAP_IPC_LOCK.
bool HasIpcLock(const std::string& process) {
  constexpr int kCapIpcLock = 14;
  const std::vector<std::string> words =
      WordsAfterName(absl::StrCat("/proc/", process, "/status"), "CapEff:");
  uint64_t capabilities = 0;
  return !words.empty() && absl::SimpleHexAtoi(words[0], &capabilities) &&
         (capabilities >> kCapIpcLock & 1) != 0;
}

// Reads the limit of locked memory: the agent's where it can be read, else this process's.
void ReadMemlock(pid_t agent, NodeFacts* facts) {
  const std::vector<std::string> words =
      agent > 0 ? WordsAfterName(absl::StrCat("/proc/", agent, "/limits"), "Max locked memory")
                : std::vector<std::string>();
  facts->memlock_of_agent = !words.empty();
  if (HasIpcLock(facts->memlock_of_agent ? absl::StrCat(agent) : "self")) return;
  uint64_t bytes = 0;
  rlimit limit{};
  if (facts->memlock_of_agent) {
    if (absl::SimpleAtoi(words[0], &bytes)) facts->memlock_bytes = bytes;
  } else if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    facts->memlock_bytes = limit.rlim_cur;
  }
}

// Makes a memfd like an arena's, and asks for one huge page of it.
void TryMemfd(NodeFacts* facts) {
  const Descriptor fd(memfd_create("kvtier-doctor", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  facts->memfd_error = fd.error();
  if (fd.get() < 0) return;
  if (ftruncate(fd.get(), static_cast<off_t>(kHugePageBytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    facts->memfd_error = errno;
    return;
  }
  void* const memory = MapShared(fd.get(), kHugePageBytes, PROT_READ | PROT_WRITE);
  if (memory == MAP_FAILED) return;
  facts->huge_pages = TakeHugePages({static_cast<std::byte*>(memory), kHugePageBytes});
  munmap(memory, kHugePageBytes);
}

// Returns the word in brackets of "always within_size advise [never] deny force".
std::string ShmemEnabled() {
  const std::string text = TextOf("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return text.substr(begin + 1, end - begin - 1);
}

void TryIoUring(NodeFacts* facts) {
  io_uring_params params{};
  const Descriptor ring(static_cast<int>(syscall(SYS_io_uring_setup, 1, &params)));
  facts->io_uring_error = ring.error();
  int disabled = 0;
  if (absl::SimpleAtoi(TextOf("/proc/sys/kernel/io_uring_disabled"), &disabled)) {
    facts->io_uring_disabled = disabled;
  }
}

int PeerPidfdError() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  const Descriptor one(ends[0]);
  const Descriptor other(ends[1]);
  int pidfd = -1;
  socklen_t size = sizeof(pidfd);
  if (getsockopt(one.get(), SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) != 0) return errno;
  const Descriptor made(pidfd);
  return 0;
}

// Makes files without a name, so that none stays, whatever happens.
DiskFacts LookAtDisk(const std::string& directory) {
  DiskFacts facts{.directory = directory};
  const Descriptor plain(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  facts.open_error = plain.error();
  // The file system has no O_TMPFILE, as an overlay of an old kernel.
  if (facts.open_error == EOPNOTSUPP) {
    facts.open_error = access(directory.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
    return facts;
  }
  if (facts.open_error != 0) return facts;
  const Descriptor direct(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | O_DIRECT, 0600));
  facts.direct_error = direct.error();
  return facts;
}

absl::Status TrySession(const std::string& socket_dir, absl::Duration timeout) {
  const absl::Time deadline = MonotonicClock().Now() + timeout;
  absl::StatusOr<PacketSocket> socket =
      PacketSocket::Connect(absl::StrCat(socket_dir, "/", wire::kDescriptorSocketName));
  if (!socket.ok()) return socket.status();
  return ShakeHands(&*socket,
                    {.socket_dir = socket_dir,
                     .tenant = kNobodysTenant,
                     .session_key = SessionKey::FromSecret("")},
                    deadline)
      .status();
}

}  // namespace

NodeFacts GatherNodeFacts(const Arguments& arguments) {
  NodeFacts facts{.socket_dir = arguments.socket_dir};
  facts.own_uid = geteuid();
  facts.uid = arguments.uid.value_or(facts.own_uid);
  facts.uid_named = arguments.uid.has_value();
  facts.uid_map = UidMap();
  pid_t agent = 0;
  if (access(facts.socket_dir.c_str(), X_OK) != 0) {
    facts.directory_error = errno;
  } else {
    for (const auto& [name, type] : {std::pair(wire::kControlSocketName, SOCK_STREAM),
                                     std::pair(wire::kDescriptorSocketName, SOCK_SEQPACKET),
                                     std::pair(kAgentAdminSocketName, SOCK_STREAM)}) {
      facts.sockets.push_back(LookAt(facts.socket_dir, name, type, &agent));
    }
    const AgentAdmin admin(absl::StrCat("unix:", facts.socket_dir, "/", kAgentAdminSocketName),
                           arguments.timeout);
    if (facts.sockets.back().exists && facts.sockets.back().connect_error == 0) {
      facts.status = admin.Status();
      facts.sharing = admin.DescribeSharing();
    }
    facts.session = TrySession(facts.socket_dir, arguments.timeout);
  }
  facts.same_user_namespace = SameNamespace(agent, "user");
  facts.same_pid_namespace = SameNamespace(agent, "pid");
  facts.same_time_namespace = SameNamespace(agent, "time");

  utsname system{};
  if (uname(&system) == 0) facts.kernel = system.release;
  ReadMemlock(agent, &facts);
  const MemoryLimit limit = CgroupMemoryLimit();
  if (!limit.file.empty()) facts.memory_max_bytes = limit.bytes;
  TryMemfd(&facts);
  facts.shmem_enabled = ShmemEnabled();
  TryIoUring(&facts);
  facts.peer_pidfd_error = PeerPidfdError();
  std::vector<std::string> directories = arguments.disk_dirs;
  if (directories.empty() && facts.status.ok()) {
    for (const v1::DiskReport& disk : facts.status->disks())
      directories.push_back(disk.directory());
  }
  for (const std::string& directory : directories) facts.disks.push_back(LookAtDisk(directory));
  return facts;
}

}  // namespace kvtier::cli
