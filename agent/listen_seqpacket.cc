#include "agent/listen_seqpacket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace kvtier {
namespace {

constexpr int kBacklog = 64;
constexpr mode_t kSocketMode = 0660;

}  // namespace

absl::StatusOr<int> ListenSeqpacket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("socket path ", path, ": longer than ",
                                               sizeof(address.sun_path) - 1, " bytes"));
  }
  path.copy(address.sun_path, path.size());
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("socket: ", strerror(errno)));
  unlink(path.c_str());
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      chmod(path.c_str(), kSocketMode) == 0 && listen(fd, kBacklog) == 0) {
    return fd;
  }
  const absl::Status status =
      absl::UnavailableError(absl::StrCat("listening on ", path, ": ", strerror(errno)));
  close(fd);
  return status;
}

}  // namespace kvtier
