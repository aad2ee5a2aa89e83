#include "core/unix_listener.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

constexpr int kUnixBacklog = 64;

}  // namespace

absl::StatusOr<UnixListener> UnixListener::Listen(std::string path, int type, mode_t mode) {
  UnixListener listener(std::move(path), type, mode);
  KVT_RETURN_IF_ERROR(listener.Open());
  return listener;
}

UnixListener::UnixListener(UnixListener&& other) noexcept
    : path_(std::move(other.path_)),
      type_(other.type_),
      mode_(other.mode_),
      fd_(std::exchange(other.fd_, -1)),
      device_(other.device_),
      inode_(other.inode_) {}

UnixListener::~UnixListener() {
  if (fd_ < 0) return;
  close(fd_);
  if (HasFile()) unlink(path_.c_str());
}

absl::Status UnixListener::Open() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof(address.sun_path)) {
    return absl::UnavailableError(absl::StrCat("the path of socket ", path_, " is longer than ",
                                               sizeof(address.sun_path) - 1,
                                               " bytes; name a shorter directory"));
  }
  path_.copy(address.sun_path, path_.size());
  const int fd = socket(AF_UNIX, type_ | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot make a socket for ", path_, ": ", strerror(errno)));
  }
  unlink(path_.c_str());
  struct stat about{};
  // Linux gives the file the mode of the socket, less the umask: it is never wider than
  // `mode`. The second call gives back what the umask took.
  if (fchmod(fd, mode_) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      chmod(path_.c_str(), mode_) == 0 && lstat(path_.c_str(), &about) == 0 &&
      listen(fd, kUnixBacklog) == 0) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
    device_ = about.st_dev;
    inode_ = about.st_ino;
    return absl::OkStatus();
  }
  const absl::Status status =
      absl::UnavailableError(absl::StrCat("cannot listen on ", path_, ": ", strerror(errno)));
  close(fd);
  return status;
}

bool UnixListener::HasFile() const {
  struct stat about{};
  return lstat(path_.c_str(), &about) == 0 && about.st_dev == device_ && about.st_ino == inode_;
}

absl::StatusOr<bool> UnixListener::KeepFile() {
  if (HasFile()) return false;
  struct stat about{};
  if (lstat(path_.c_str(), &about) == 0) {
    return absl::UnavailableError(absl::StrCat(
        path_, " is another program's now, so nobody reaches this one; remove it, or stop one"));
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), error);
  KVT_RETURN_IF_ERROR(Open());
  return true;
}

}  // namespace kvtier
