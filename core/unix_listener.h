// UnixListener is a Unix socket that listens at a path, and listens there again when its file was
// removed: nobody could reach a socket without a file, and nothing else would say so.
#ifndef KVTIER_CORE_UNIX_LISTENER_H_
#define KVTIER_CORE_UNIX_LISTENER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace kvtier {

// Interval at which the owner of a listener calls KeepFile().
inline constexpr absl::Duration kKeepFileInterval = absl::Seconds(1);

// UnixListener is used by one thread at a time.
class UnixListener {
 public:
  // Listens with a socket of `type` (SOCK_STREAM or SOCK_SEQPACKET) at `path`, in place of a stale
  // one there. From the start only users whom `mode` permits can connect. The socket is
  // non-blocking. Errors: kUnavailable, with the path and errno's text.
  static absl::StatusOr<UnixListener> Listen(std::string path, int type, mode_t mode);
  // Closes the socket, and removes its file if the file is still its own.
  ~UnixListener();
  UnixListener(UnixListener&& other) noexcept;
  UnixListener& operator=(UnixListener&&) = delete;

  int fd() const { return fd_; }
  // Listens again if there is no file at the path, whose directory it makes if need be. Returns
  // whether it did; fd() is another one then, and the old one is closed. Errors: kUnavailable, it
  // cannot, or another program's file is there.
  absl::StatusOr<bool> KeepFile();

 private:
  UnixListener(std::string path, int type, mode_t mode)
      : path_(std::move(path)), type_(type), mode_(mode) {}
  absl::Status Open();
  // Returns whether the file at the path is the one that Open() made.
  bool HasFile() const;

  std::string path_;
  int type_;
  mode_t mode_;
  int fd_ = -1;
  uint64_t device_ = 0;  // Device and inode of the socket's file.
  uint64_t inode_ = 0;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_UNIX_LISTENER_H_
