// DescriptorSocket opens and ends worker sessions. It is the SEQPACKET Unix socket that checks who
// connects, proves the tenant, hands over descriptors, and takes a hangup as the end of the
// session, though not as the end of what its process does. The protocol is proto/session_wire.h.
//
// It runs one thread of its own, which knows the agent only by the calls below.
#ifndef KVTIER_AGENT_SESSIONS_DESCRIPTOR_SOCKET_H_
#define KVTIER_AGENT_SESSIONS_DESCRIPTOR_SOCKET_H_

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

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "agent/sessions/leaving_workers.h"
#include "agent/sessions/proven_callers.h"
#include "agent/sessions/sessions.h"
#include "agent/tenants.h"
#include "core/device_uuid.h"
#include "core/seldom_log.h"
#include "core/unix_listener.h"
#include "proto/session_wire.h"

namespace kvtier {

// Time within which a connection must say Hello; the socket closes it otherwise.
inline constexpr absl::Duration kHelloTimeout = absl::Seconds(2);

class DescriptorSocket {
 public:
  struct Shared {
    int fd = -1;  // Not owned.
    uint64_t bytes = 0;
    uint32_t handles = 1;
    uint32_t max_handles = 1;
    uint64_t version = 0;  // wire::DescriptorReply's, like `since`.
    uint64_t since = 0;
    uint32_t moves = 0;
    DeviceUuid device;        // GPU whose memory this is; none: host memory.
    bool duplicated = false;  // The socket closes `fd` after it answered.
  };
  // Wish is a session's request for a descriptor.
  struct Wish {
    SessionId session{};
    wire::DescriptorKind kind{};
    uint32_t index = 0;
    DeviceUuid device;  // GPU whose pool is asked for; none: the session's, or any.
  };
  // Calls to the agent, made on the socket's thread; each may block for microseconds.
  struct Calls {
    // Opens a session. Errors: kNotFound, one of the tenants is not admitted; kResourceExhausted.
    absl::AnyInvocable<absl::StatusOr<SessionId>(const SessionTenants&, const SessionToken&)> open;
    // Closes the session. Returns whether the worker may still write what the session had reserved.
    absl::AnyInvocable<bool(SessionId)> close;
    // Called after close(), when the worker surely writes nothing more of what the session had
    // reserved.
    absl::AnyInvocable<void(SessionId)> over;
    // Called after close(), when the worker's process is gone: for a session that was given a
    // signal page, or that could still write until then.
    absl::AnyInvocable<void(SessionId)> gone;
    // Returns the memory that the wish asks for. Errors: kNotFound, this node has no such memory
    // for the session, or it is closed; kResourceExhausted.
    absl::AnyInvocable<absl::StatusOr<Shared>(const Wish&)> share;
  };
  struct Options {
    std::string path;
    std::vector<uid_t> allowed_uids;       // Users whose processes may connect.
    const TenantTable* tenants = nullptr;  // Not owned.
    ProvenCallers* proven = nullptr;       // Callers with a session, which this keeps. Not owned.
  };

  // Binds (replacing a stale socket), makes it usable by owner and group, starts the
  // thread. Errors: kUnavailable, with the path and errno's text.
  static absl::StatusOr<std::unique_ptr<DescriptorSocket>> Listen(Options options, Calls calls);
  // Closes every session, joins the thread, removes the socket.
  ~DescriptorSocket();
  // Hangs up on the session's worker, which trusts nothing of the session from this moment on. The
  // thread sees the hangup, and closes the session as if the worker had hung up. Ignores unknown
  // ids: a worker that was not welcomed yet has leased nothing. Any thread.
  void HangUp(SessionId session);

 private:
  struct Connection {
    std::array<uint8_t, 32> nonce{};
    uint64_t caller = 0;  // Process of the worker, as SocketPeer counts it.
    bool open = false;    // Whether a valid Hello has come.
    SessionId session{};
    pid_t pid = 0;  // Process of the worker; 0: it is in another PID namespace.
    bool has_page = false;
    int process = -1;   // A pidfd, set at Hello; -1: the process cannot be watched.
    int lifeline = -1;  // Agent's end of the lifeline; -1: the worker asked for none.
    absl::Time hello_by;
  };
  DescriptorSocket(Options options, Calls calls, UnixListener listener, int epoll_fd, int stop_fd);
  void Run();
  void Accept();
  // Closes the oldest connection without a session of the caller that has the most of them. Returns
  // false when each connection has a session.
  bool MakeRoom();
  // Listens again where the socket's file was removed.
  void KeepFile();
  // Return false if the connection is to be closed.
  bool OnReadable(int fd, Connection* connection);
  bool OnHello(int fd, Connection* connection, std::span<const std::byte> packet);
  bool OnDescriptorRequest(int fd, Connection* connection, std::span<const std::byte> packet);
  // Makes a new lifeline. Returns the worker's end of it, which the caller closes after the answer.
  absl::StatusOr<Shared> MakeLifeline(Connection* connection);
  void Close(int fd);
  void CloseLateConnections();

  const Options options_;
  Calls calls_;
  UnixListener listener_;  // Used by the thread alone, once it runs.
  const int epoll_fd_;
  const int stop_fd_;                      // An eventfd: readable when the thread is to end.
  std::map<int, Connection> connections_;  // Connections by descriptor, used by the thread alone.
  absl::Mutex mu_;
  // Descriptors of the open sessions' connections.
  absl::flat_hash_map<SessionId, int> open_ ABSL_GUARDED_BY(mu_);
  LeavingWorkers leaving_;
  SeldomLog refusals_;  // Used by the thread alone.
  absl::Time keep_file_at_;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_AGENT_SESSIONS_DESCRIPTOR_SOCKET_H_
