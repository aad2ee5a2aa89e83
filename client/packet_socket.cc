#include "client/packet_socket.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/clock.h"

namespace kvtier {
namespace {

absl::Status Failed(const char* call) {
  return absl::UnavailableError(absl::StrCat("descriptor socket: ", call, ": ", strerror(errno)));
}

}  // namespace

void FileDescriptor::Close() {
  if (fd_ >= 0) CloseKeptDescriptor(fd_);
  fd_ = -1;
}

absl::StatusOr<PacketSocket> PacketSocket::Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  KVT_CHECK(path.size() < sizeof(address.sun_path));
  std::copy(path.begin(), path.end(), address.sun_path);
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return Failed("socket");
  // The socket is non-blocking: if the agent accepts nobody, connect() fails at once with EAGAIN.
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EACCES) {
      return absl::UnavailableError(
          absl::StrCat("user ", geteuid(), " may not use the agent's socket ", path, ": ",
                       strerror(errno), "; must be in the group of the socket and its directory"));
    }
    return absl::UnavailableError(
        absl::StrCat("no agent listens at ", path, ": ", strerror(errno)));
  }
  return PacketSocket(std::move(fd));
}

absl::Status PacketSocket::WaitFor(short events, absl::Time deadline) const {
  const MonotonicClock clock;
  for (;;) {
    const absl::Duration left = deadline - clock.Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          "descriptor socket: the agent did not answer in time; try again");
    }
    pollfd ready = {.fd = fd(), .events = events, .revents = 0};
    const timespec wait = absl::ToTimespec(std::min(left, absl::Hours(1)));
    const int count = ppoll(&ready, 1, &wait, nullptr);
    if (count > 0) return absl::OkStatus();
    if (count < 0 && errno != EINTR) return Failed("poll");
  }
}

absl::Status PacketSocket::Send(std::span<const std::byte> packet, absl::Time deadline) {
  for (;;) {
    if (absl::Status ready = WaitFor(POLLOUT, deadline); !ready.ok()) return ready;
    const ssize_t sent = send(fd(), packet.data(), packet.size(), MSG_NOSIGNAL);
    if (sent == static_cast<ssize_t>(packet.size())) return absl::OkStatus();
    if (sent >= 0) {
      return absl::UnavailableError(
          "descriptor socket: a packet was sent only in part; connect again");
    }
    if (errno != EINTR && errno != EAGAIN) return Failed("send");
  }
}

absl::StatusOr<FileDescriptor> PacketSocket::Receive(std::span<std::byte> packet,
                                                     absl::Time deadline) {
  iovec parts = {.iov_base = packet.data(), .iov_len = packet.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  ssize_t received = -1;
  bool reset = false;
  while (received < 0) {
    if (absl::Status ready = WaitFor(POLLIN, deadline); !ready.ok()) return ready;
    message = {};
    message.msg_iov = &parts;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    received = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC);
    if (received >= 0 || errno == EINTR || errno == EAGAIN) continue;
    // An agent that hangs up with a packet of ours unread resets the socket: the kernel says so
    // once, before it hands out what the agent said last.
    if (errno != ECONNRESET || std::exchange(reset, true)) return Failed("recvmsg");
  }
  FileDescriptor passed;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    passed = FileDescriptor(fd);
  }
  if (received == 0) {
    return absl::UnavailableError("descriptor socket: the agent hung up; connect again");
  }
  if (received != static_cast<ssize_t>(packet.size()) ||
      (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "descriptor socket: a packet of ", received, " bytes",
        (message.msg_flags & MSG_TRUNC) != 0 ? " or more" : "", "; expected ", packet.size()));
  }
  return passed;
}

bool PacketSocket::HungUp() const {
  pollfd state = {.fd = fd(), .events = POLLRDHUP, .revents = 0};
  int count = -1;
  do {
    count = poll(&state, 1, 0);
  } while (count < 0 && errno == EINTR);
  return count != 0;
}

void PacketSocket::HangUp() const {
  // The call fails with ENOTCONN if the other side hung up first.
  static_cast<void>(shutdown(fd(), SHUT_RDWR));
}

}  // namespace kvtier
