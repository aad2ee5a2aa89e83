// PacketSocket is the worker's end of the descriptor socket. It sends and receives whole packets
// with a deadline, and at most one descriptor with each that it receives. It does not know what
// packets mean.
#ifndef KVTIER_CLIENT_PACKET_SOCKET_H_
#define KVTIER_CLIENT_PACKET_SOCKET_H_

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/fork_guard.h"

namespace kvtier {

// FileDescriptor owns a file descriptor. Move-only. In a forked child it is inert (fork_guard.h).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {
    if (fd_ >= 0) KeepDescriptorFromChildren(fd_);
  }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { Close(); }
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

 private:
  void Close();
  int fd_ = -1;
};

// Thread-compatible; HungUp(), HangUp() and fd() from any thread. Times are
// MonotonicClock's.
class PacketSocket {
 public:
  // Errors of all below: kUnavailable, nobody listens, the other side hung up, or
  // errno; kDeadlineExceeded.
  static absl::StatusOr<PacketSocket> Connect(const std::string& path);

  absl::Status Send(std::span<const std::byte> packet, absl::Time deadline);
  // Receives one packet of exactly packet.size() bytes and returns the descriptor that came with
  // it, if any. Errors also: kFailedPrecondition, another size.
  absl::StatusOr<FileDescriptor> Receive(std::span<std::byte> packet, absl::Time deadline);

  // Returns whether the other side is gone or HangUp() was called. Asks the kernel: exact, and
  // takes about a microsecond.
  bool HungUp() const;
  // Ends the conversation for both sides. The descriptor stays open, so that no other file
  // gets its number while a thread still uses it.
  void HangUp() const;
  int fd() const { return fd_.get(); }

 private:
  explicit PacketSocket(FileDescriptor fd) : fd_(std::move(fd)) {}
  absl::Status WaitFor(short events, absl::Time deadline) const;

  FileDescriptor fd_;
};

}  // namespace kvtier

#endif  // KVTIER_CLIENT_PACKET_SOCKET_H_
