// RawSession is a worker's end of the wire without the client library: a test can send any packets
// and RPCs.
#ifndef KVTIER_TESTS_INTEGRATION_RAW_SESSION_H_
#define KVTIER_TESTS_INTEGRATION_RAW_SESSION_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "proto/layout_digest.h"
#include "proto/session_wire.h"

namespace kvtier::testing {

class RawSession {
 public:
  // Connects to the agent's descriptor socket and takes its Challenge.
  explicit RawSession(const std::string& socket_dir)
      : fd_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    absl::StrCat(socket_dir, "/", wire::kDescriptorSocketName)
        .copy(address.sun_path, sizeof(address.sun_path) - 1);
    connected_ = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                 recv(fd_, &challenge_, sizeof(challenge_), 0) == sizeof(challenge_);
  }
  ~RawSession() { close(fd_); }
  RawSession(const RawSession&) = delete;
  RawSession& operator=(const RawSession&) = delete;

  bool connected() const { return connected_; }
  const wire::Challenge& challenge() const { return challenge_; }
  // Returns a valid Hello, by default of the open tenant. Tests may then spoil it.
  wire::Hello GoodHello(absl::string_view tenant = "default",
                        const std::string& secret = "") const {
    wire::Hello hello{.layout = wire::LayoutDigest(wire::kSessionVersion)};
    tenant.copy(hello.tenant.data(), hello.tenant.size());
    hello.proof = wire::SessionProof(SessionKey::FromSecret(secret), challenge_.nonce);
    return hello;
  }
  // Sends a Hello and returns the Welcome; nullopt: the agent hung up instead.
  std::optional<wire::Welcome> Say(const wire::Hello& hello) {
    wire::Welcome welcome;
    if (send(fd_, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello) ||
        recv(fd_, &welcome, sizeof(welcome), 0) != sizeof(welcome)) {
      return std::nullopt;
    }
    return welcome;
  }
  // Sends bytes that need not be a packet. False: the agent has hung up, or its buffer is full.
  bool SendBytes(std::span<const std::byte> bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Waits until the agent has hung up; drops packets that come before.
  void AwaitHangup() {
    std::array<std::byte, 256> said;
    while (recv(fd_, said.data(), said.size(), 0) > 0) continue;
  }
  // Asks for a descriptor and returns the reply; nullopt: the agent's answer is no reply. Moves the
  // descriptor that came with the reply to `handed` (-1: none), or closes it if `handed` is null.
  std::optional<wire::DescriptorReply> Ask(const wire::DescriptorRequest& request,
                                           int* handed = nullptr) {
    if (handed != nullptr) *handed = -1;
    wire::DescriptorReply reply;
    iovec part{.iov_base = &reply, .iov_len = sizeof(reply)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (send(fd_, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request) ||
        recvmsg(fd_, &message, MSG_CMSG_CLOEXEC) != sizeof(reply) ||
        (message.msg_flags & MSG_TRUNC) != 0) {
      return std::nullopt;
    }
    if (const cmsghdr* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
      int passed = -1;
      std::memcpy(&passed, CMSG_DATA(header), sizeof(passed));
      if (handed != nullptr) {
        *handed = passed;
      } else {
        close(passed);
      }
    }
    return reply;
  }

 private:
  const int fd_;
  bool connected_ = false;
  wire::Challenge challenge_;
};

inline std::string TokenText(const wire::Welcome& welcome) {
  return {welcome.session_token.begin(), welcome.session_token.end()};
}

inline std::shared_ptr<grpc::Channel> WorkerChannel(const std::string& socket_dir) {
  return grpc::CreateChannel(absl::StrCat("unix:", socket_dir, "/", wire::kControlSocketName),
                             grpc::InsecureChannelCredentials());
}

inline void SetCallDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_INTEGRATION_RAW_SESSION_H_
