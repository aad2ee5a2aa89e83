// DescriptorSocket opens and ends worker sessions: the SEQPACKET Unix socket that
// checks who connects, proves the tenant, hands over descriptors, and takes a hangup
// as the end of the session. The protocol is proto/session_wire.h.
//
// One thread of its own; it knows the agent only by the calls below.
#ifndef KVTIER_AGENT_DESCRIPTOR_SOCKET_H_
#define KVTIER_AGENT_DESCRIPTOR_SOCKET_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "agent/sessions.h"
#include "agent/tenants.h"
#include "proto/session_wire.h"

namespace kvtier {

// A connection that has not said Hello by then is closed.
inline constexpr absl::Duration kHelloTimeout = absl::Seconds(2);

class DescriptorSocket {
 public:
  struct Shared {
    int fd = -1;  // Not owned.
    uint64_t bytes = 0;
  };
  // Called on the socket's thread; each may block for microseconds.
  struct Calls {
    absl::AnyInvocable<absl::StatusOr<SessionId>(const Tenant&, const SessionToken&)> open;
    absl::AnyInvocable<void(SessionId)> close;
    // Errors: kNotFound, this node has no such memory.
    absl::AnyInvocable<absl::StatusOr<Shared>(DomainId, wire::DescriptorKind)> share;
  };
  struct Options {
    std::string path;
    std::vector<uid_t> allowed_uids;       // Of the connecting process.
    const TenantTable* tenants = nullptr;  // Not owned.
  };

  // Binds (replacing a stale socket), makes it usable by owner and group, starts the
  // thread. Errors: kUnavailable, with the path and errno's text.
  static absl::StatusOr<std::unique_ptr<DescriptorSocket>> Listen(Options options, Calls calls);
  // Closes every session, joins the thread, removes the socket.
  ~DescriptorSocket();

 private:
  struct Connection {
    std::array<uint8_t, 32> nonce{};
    bool open = false;  // After a good Hello.
    SessionId session{};
    DomainId domain{};
    absl::Time hello_by;
  };
  DescriptorSocket(Options options, Calls calls, int listen_fd, int epoll_fd, int stop_fd);
  void Run();
  void Accept();
  // False: close the connection.
  bool OnReadable(int fd, Connection* connection);
  bool OnHello(int fd, Connection* connection, std::span<const std::byte> packet);
  bool OnDescriptorRequest(int fd, const Connection& connection, std::span<const std::byte> packet);
  void Close(int fd);
  void CloseLateConnections();

  const Options options_;
  Calls calls_;
  const int listen_fd_;
  const int epoll_fd_;
  const int stop_fd_;                      // An eventfd: readable when the thread is to end.
  std::map<int, Connection> connections_;  // By descriptor; the thread's own.
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_DESCRIPTOR_SOCKET_H_
