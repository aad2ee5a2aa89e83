// RpcDoor is one address at which gRPC services are answered: a Unix socket or a TCP port.
// It decides who may connect, and it bounds what callers can pile up behind it. Which RPC is
// answered at which door is in docs/design/wire.md.
//
// gRPC does not accept the connections itself: it would neither bound their number, nor ask
// the kernel who connects to a Unix socket, nor give its file a mode before others see it.
#ifndef KVTIER_PROTO_RPC_DOOR_H_
#define KVTIER_PROTO_RPC_DOOR_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "core/listening_socket.h"
#include "core/seldom_log.h"
#include "core/socket_peer.h"
#include "core/unix_listener.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/floods.h"
#include "proto/starting_service.h"

namespace kvtier {

// Connections of one process to a Unix socket, and of one address to a TCP port, at a time.
inline constexpr size_t kMaxConnectionsPerCaller = 64;
// The longest request: 8,192 keys of 64 bytes, or 16,384 deltas, with room to spare.
inline constexpr int kMaxRequestBytes = 1 << 20;
// The most that gRPC reads of a connection at once, in bytes: what it still works on when the door
// has hung up. The smallest call that a caller resets at once has 28.
inline constexpr int kMaxReadBytes = 64 << 10;
// Interval at which the door looks at memory and at its connections (floods.h).
inline constexpr absl::Duration kLookInterval = absl::Milliseconds(20);

// Returns the error that answers an RPC of operators at a door that is not theirs: it names the
// socket that is.
absl::Status NotAtThisDoor(absl::string_view rpc, absl::string_view socket_path);

// Thread-safe. One thread of its own, which accepts connections.
class RpcDoor {
 public:
  struct Limits {
    // Maximum number of connections; the door hangs up on one more at once. A connection counts
    // until gRPC has freed everything that its calls held, which takes longer than hanging up and
    // calling again. On a Unix socket, half of the connections are reserved in equal parts for the
    // users that may connect.
    size_t connections = 0;
    // Maximum number of calls in progress on one connection; its client waits with more.
    int calls = 0;
    // Memory for requests that have not come whole, in bytes. gRPC ends calls when there is more,
    // but not as fast as callers can send: several times as much was measured. `is_memory_short` is
    // the bound that holds.
    size_t intake_bytes = 0;
    int threads = 0;  // Threads of synchronous services and of gRPC.
  };
  struct Options {
    std::string name;     // Name for the log, such as "admin".
    std::string address;  // The absolute path of a Unix socket, or "host:port" of TCP.
    mode_t mode = 0600;   // Mode of the Unix socket.
    // User ids that may connect to the Unix socket, by what the kernel says of them.
    std::vector<uint32_t> uids;
    bool health = false;  // Answers gRPC's health checks, too.
    // Answers the calls of a program that starts, which is not ready, in place of all services;
    // null: it is ready.
    StartingService* starting = nullptr;
    Limits limits;
    // Returns whether the caller (SocketPeer) has proven whose it is. Where all places of a Unix
    // socket are taken, such a caller gets that of one who has not. Any thread. Empty: nobody has.
    std::function<bool(uint64_t caller)> has_proven;
    // Returns whether memory is short. It is called every kLookInterval on the door's thread;
    // while it returns true, connections with more unfinished calls than may be open are hung up
    // on, and where there are none, the callers that have the most connections. Empty: memory is
    // never taken to be short.
    std::function<bool()> is_memory_short;
  };
  // Listens and answers. Does not own `services`, which must outlive the door. REQUIRES: of a
  // Unix socket, the caller has locked its directory (LockSocketDir()). Errors: kUnavailable,
  // it cannot listen there.
  static absl::StatusOr<std::unique_ptr<RpcDoor>> Open(Options options,
                                                       std::span<grpc::Service* const> services);
  // Answers in place of `before`, whose connections are cut. Those that come meanwhile wait for the
  // answer, because the sockets stay. REQUIRES: both have one address. Errors: as Open().
  static absl::StatusOr<std::unique_ptr<RpcDoor>> Follow(std::unique_ptr<RpcDoor> before,
                                                         Options options,
                                                         std::span<grpc::Service* const> services);
  ~RpcDoor();
  RpcDoor(const RpcDoor&) = delete;
  RpcDoor& operator=(const RpcDoor&) = delete;

  uint16_t port() const { return listeners_.port; }  // Returns the TCP port.
  // Sets the answer to health checks of "readiness", at first whether nothing is `starting`.
  // REQUIRES: options.health.
  void SetReady(bool ready);
  // Takes no more connections, and cuts the ones there are at `deadline`; hangs up on floods until
  // then. Idempotent.
  void Shutdown(absl::Time deadline);

 private:
  using Acceptor = std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>;
  struct Connection {
    uint64_t owner = 0;   // Caller: a process (SocketPeer), or an address.
    uint32_t uid = 0;     // User at the other end of a Unix socket.
    int grpcs_fd = -1;    // The descriptor that gRPC closes when it needs the connection no more.
    uint64_t number = 0;  // Number of the connection, in the order in which they came.
    uint64_t socket = 0;  // The socket's inode: another one has the number when gRPC has closed.
    bool hung_up = false;
    ConnectionWatch watch;
  };
  RpcDoor(Options options, TcpListeners listeners, std::optional<UnixListener> unix_listener);
  absl::Status Serve(std::span<grpc::Service* const> services);
  void Run();
  // Wakes the door's thread.
  void Wake() const;
  // Returns how long the door's thread may sleep.
  absl::Duration Pause() const;
  // Looks at memory and at the connections, and hangs up where it must.
  void Look();
  void Accept(int listener);
  void StopListening();
  // Returns whether this connection may come in; says so in the log when it may not.
  bool MayEnter(int fd);
  bool Listens(int fd) const;
  // Returns whether not all places are taken; says so in the log when they are.
  bool HasPlace();
  // Returns whether the user may connect, and has a place left or gets another's.
  bool UserMayEnter(const SocketPeer& peer);
  // Hangs up on the oldest connection of the caller who has the most, of those that have not proven
  // whose they are, to make room for one who has. Returns false when there is none, or the caller
  // has not.
  bool MakesRoomFor(const SocketPeer& peer);
  // Listens again where a Unix socket's file was removed.
  void KeepFile();
  // Returns whether the user may have one more connection: of its own part, or of what the parts of
  // all other users leave. REQUIRES: the user is one of options_.uids.
  bool LeavesOthersTheirs(uint32_t uid) const;
  // Marks the connection as hung up. REQUIRES: it is not.
  void HearEndOf(int fd);
  // Forgets the connections that are hung up and that gRPC has let go of.
  void ForgetHungUp();
  bool AnyHungUp() const;
  // Hangs up on the connection, and reads what gRPC has not read of it. REQUIRES: it is not
  // hung up.
  void HangUp(int fd);
  // Hangs up on connections that have more unfinished calls than they may, or that are busy too
  // long (floods.h). Returns how many there were.
  size_t HangUpOnFloods(uint64_t unfinished_of_door);
  void Complain(const std::string& what);
  // Hangs up on half of the connections or more, those of the callers that have the most.
  void HangUpOnMost();

  const Options options_;
  TcpListeners listeners_;
  std::optional<UnixListener> unix_listener_;  // Used by the door's thread alone, once it runs.
  const int epoll_fd_;
  const int stop_fd_;
  Acceptor acceptor_;
  std::unique_ptr<grpc::Server> server_;
  int64_t server_number_ = 0;  // Number of the server in what gRPC counts.
  absl::Notification listens_no_more_;
  std::atomic<bool> is_over_ = false;
  // The door's thread alone uses this and the members below. Connections by a duplicate of their
  // descriptor, which shows when gRPC or the caller has hung up.
  std::map<int, Connection> connections_;
  uint64_t came_ = 0;           // Number of connections so far.
  int64_t newest_counted_ = 0;  // The newest one's number in what gRPC counts.
  absl::Time look_at_ = absl::InfinitePast();
  SeldomLog complaints_;
  std::thread thread_;
};

}  // namespace kvtier

#endif  // KVTIER_PROTO_RPC_DOOR_H_
