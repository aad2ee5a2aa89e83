#include "proto/rpc_door.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "core/address.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "grpcpp/ext/health_check_service_server_builder_option.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/resource_quota.h"
#include "proto/connection_counts.h"
#include "proto/convert.h"
#include "proto/link.h"

namespace kvtier {
namespace {

static_assert(convert::kMaxKeysPerRequest * (kMaxEngineKeyBytes + 2) + 4096 <= kMaxRequestBytes);
// A delta: a key of 16 bytes, its kind, its tier, and their tags.
static_assert(convert::kMaxDeltasPerReport * 32 + 4096 <= kMaxRequestBytes);

// A connection whose other end is gone without a word ends after the sum of these.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// Pause after hanging up on callers, in which gRPC gives back what their connections held.
constexpr absl::Duration kHangUpPause = absl::Milliseconds(100);
// Shortest sleep of the door's thread while it waits for the next look.
constexpr absl::Duration kLeastPause = absl::Milliseconds(1);
constexpr absl::Duration kNoDescriptorPause = absl::Milliseconds(10);
// Interval at which the door looks whether gRPC has let go of a connection that is hung up.
constexpr absl::Duration kHungUpInterval = absl::Milliseconds(10);
// A look takes one in so many parts of the thread's time at most: some 4 us for each connection.
constexpr int kLookPart = 8;

bool IsUnix(const std::string& address) { return absl::StartsWith(address, "/"); }

// Returns the caller under which a connection is counted: the process at the other end of a Unix
// socket, the address (of IPv6, the network) of TCP.
uint64_t OwnerOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  uint64_t owner = 0;
  if (address.ss_family == AF_INET6) {
    memcpy(&owner, &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr, sizeof(owner));
  } else if (address.ss_family == AF_INET) {
    owner = reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr;
  } else {
    owner = PeerOf(fd).value_or(SocketPeer()).caller;
  }
  return owner;
}

// Returns 0 when the descriptor is closed.
uint64_t InodeOf(int fd) {
  struct stat about{};
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

int EpollTimeout(absl::Duration wait) {
  return wait == absl::InfiniteDuration() ? -1 : static_cast<int>(absl::ToInt64Milliseconds(wait));
}

void Watch(int epoll_fd, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  KVT_CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

}  // namespace

absl::Status NotAtThisDoor(absl::string_view rpc, absl::string_view socket_path) {
  return absl::PermissionDeniedError(absl::StrCat(
      rpc,
      " is refused here; call it on the program's own machine, as root or as its user, at unix:",
      socket_path));
}

absl::StatusOr<std::unique_ptr<RpcDoor>> RpcDoor::Open(Options options,
                                                       std::span<grpc::Service* const> services) {
  TcpListeners listeners;
  std::optional<UnixListener> unix_listener;
  if (IsUnix(options.address)) {
    KVT_ASSIGN_OR_RETURN(UnixListener listener,
                         UnixListener::Listen(options.address, SOCK_STREAM, options.mode));
    unix_listener.emplace(std::move(listener));
  } else {
    KVT_ASSIGN_OR_RETURN(const HostPort address, ParseHostPort(options.address));
    KVT_ASSIGN_OR_RETURN(listeners, ListenTcp(address));
  }
  std::unique_ptr<RpcDoor> door(
      new RpcDoor(std::move(options), std::move(listeners), std::move(unix_listener)));
  KVT_RETURN_IF_ERROR(door->Serve(services));
  return door;
}

absl::StatusOr<std::unique_ptr<RpcDoor>> RpcDoor::Follow(std::unique_ptr<RpcDoor> before,
                                                         Options options,
                                                         std::span<grpc::Service* const> services) {
  KVT_CHECK(before->options_.address == options.address);
  before->Shutdown(MonotonicClock().Now());
  std::unique_ptr<RpcDoor> door(new RpcDoor(std::move(options),
                                            std::exchange(before->listeners_, {}),
                                            std::exchange(before->unix_listener_, std::nullopt)));
  KVT_RETURN_IF_ERROR(door->Serve(services));
  return door;
}

RpcDoor::RpcDoor(Options options, TcpListeners listeners, std::optional<UnixListener> unix_listener)
    : options_(std::move(options)),
      listeners_(std::move(listeners)),
      unix_listener_(std::move(unix_listener)),
      epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
      stop_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  KVT_CHECK(epoll_fd_ >= 0 && stop_fd_ >= 0);
  for (const int listener : listeners_.sockets) Watch(epoll_fd_, listener, EPOLLIN);
  if (unix_listener_) Watch(epoll_fd_, unix_listener_->fd(), EPOLLIN);
  Watch(epoll_fd_, stop_fd_, EPOLLIN);
}

absl::Status RpcDoor::Serve(std::span<grpc::Service* const> services) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetResourceQuota(grpc::ResourceQuota(options_.name)
                               .SetMaxThreads(options_.limits.threads)
                               .Resize(options_.limits.intake_bytes));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.limits.calls);
  builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadBytes);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  if (!options_.health) {
    builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  if (options_.starting != nullptr) builder.RegisterCallbackGenericService(options_.starting);
  {
    // Doors that start at the same time must each find their own server.
    static absl::Mutex starting(absl::kConstInit);
    const absl::MutexLock lock(&starting);
    server_ = builder.BuildAndStart();
    server_number_ = NewestServer();
  }
  if (server_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", options_.address, "; another program may"));
  }
  if (options_.health) {
    server_->GetHealthCheckService()->SetServingStatus("liveness", true);
    SetReady(options_.starting == nullptr);
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), absl::StrCat("door-", options_.name).c_str());
  return absl::OkStatus();
}

RpcDoor::~RpcDoor() {
  Shutdown(MonotonicClock().Now());
  close(epoll_fd_);
  close(stop_fd_);
  for (const int listener : listeners_.sockets) close(listener);
}

void RpcDoor::SetReady(bool ready) {
  server_->GetHealthCheckService()->SetServingStatus("readiness", ready);
}

void RpcDoor::Shutdown(absl::Time deadline) {
  if (!thread_.joinable()) return;
  Wake();
  listens_no_more_.WaitForNotification();
  server_->Shutdown(DeadlineIn(deadline - MonotonicClock().Now()));
  is_over_ = true;
  Wake();
  thread_.join();
}

void RpcDoor::Wake() const {
  const uint64_t one = 1;
  KVT_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
}

absl::Duration RpcDoor::Pause() const {
  if (AnyHungUp()) return kHungUpInterval;
  if (!connections_.empty()) return std::max(look_at_ - MonotonicClock().Now(), kLeastPause);
  return unix_listener_ ? kKeepFileInterval : absl::InfiniteDuration();
}

void RpcDoor::Run() {
  std::array<epoll_event, 64> events;
  absl::Time keep_file_at = MonotonicClock().Now() + kKeepFileInterval;
  while (!is_over_) {
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(), EpollTimeout(Pause()));
    ForgetHungUp();
    if (!connections_.empty() && MonotonicClock().Now() >= look_at_) Look();
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_fd_) {
        StopListening();
      } else if (Listens(fd)) {
        if (!listens_no_more_.HasBeenNotified()) Accept(fd);
      } else if ((events[i].events & EPOLLHUP) != 0 && !connections_[fd].hung_up) {
        HearEndOf(fd);
      }
    }
    const bool listens = !listens_no_more_.HasBeenNotified();
    if (unix_listener_ && listens && MonotonicClock().Now() >= keep_file_at) {
      KeepFile();
      keep_file_at = MonotonicClock().Now() + kKeepFileInterval;
    }
  }
  for (const auto& [fd, connection] : connections_) close(fd);
  connections_.clear();
}

void RpcDoor::StopListening() {
  uint64_t wakes = 0;
  KVT_CHECK(read(stop_fd_, &wakes, sizeof(wakes)) == sizeof(wakes));
  if (listens_no_more_.HasBeenNotified()) return;
  for (const int listener : listeners_.sockets) {
    KVT_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, listener, nullptr) == 0);
  }
  if (unix_listener_) {
    KVT_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, unix_listener_->fd(), nullptr) == 0);
  }
  listens_no_more_.Notify();
}

void RpcDoor::Look() {
  const absl::Time begun = MonotonicClock().Now();
  const bool is_memory_short = options_.is_memory_short && options_.is_memory_short();
  const size_t floods = HangUpOnFloods(is_memory_short ? 0 : kMaxUnfinishedCallsOfDoor);
  if (is_memory_short && floods == 0) HangUpOnMost();
  const absl::Duration pause = is_memory_short ? kHangUpPause : kLookInterval;
  look_at_ = MonotonicClock().Now() + std::max(pause, kLookPart * (MonotonicClock().Now() - begun));
}

size_t RpcDoor::HangUpOnFloods(uint64_t unfinished_of_door) {
  std::vector<int> fds;
  std::vector<ConnectionLoad> loads;
  for (auto& [fd, connection] : connections_) {
    fds.push_back(fd);
    loads.push_back(connection.watch.Look(fd));
    loads.back().hung_up = connection.hung_up;
  }
  const std::vector<size_t> floods = FloodsAmong(
      loads,
      {.open_calls = static_cast<uint64_t>(options_.limits.calls), .of_door = unfinished_of_door});
  for (const size_t i : floods) {
    HangUp(fds[i]);
    Complain(FloodText(loads[i]));
  }
  return floods.size();
}

void RpcDoor::HangUp(int fd) {
  HearEndOf(fd);
  shutdown(fd, SHUT_RDWR);
  // gRPC would read, and work on, all that has come before it sees the end.
  std::array<char, kMaxReadBytes> unread;
  while (recv(fd, unread.data(), unread.size(), MSG_DONTWAIT) > 0) continue;
}

bool RpcDoor::Listens(int fd) const {
  if (unix_listener_) return fd == unix_listener_->fd();
  const std::vector<int>& sockets = listeners_.sockets;
  return std::find(sockets.begin(), sockets.end(), fd) != sockets.end();
}

void RpcDoor::KeepFile() {
  const absl::StatusOr<bool> again = unix_listener_->KeepFile();
  if (!again.ok()) {
    Complain(std::string(again.status().message()));
  } else if (*again) {
    Watch(epoll_fd_, unix_listener_->fd(), EPOLLIN);
    Complain("the socket was removed; listening again");
  }
}

void RpcDoor::HearEndOf(int fd) {
  // gRPC's own descriptor keeps the socket open a moment longer, and so the epoll set would still
  // report events of `fd`, whose number may be another connection's by then.
  KVT_CHECK(epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr) == 0);
  connections_[fd].hung_up = true;
}

bool RpcDoor::AnyHungUp() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& each) { return each.second.hung_up; });
}

void RpcDoor::ForgetHungUp() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto& [fd, connection] = *it;
    if (connection.hung_up && InodeOf(connection.grpcs_fd) != connection.socket) {
      close(fd);
      it = connections_.erase(it);
    } else {
      ++it;
    }
  }
}

void RpcDoor::Complain(const std::string& what) {
  complaints_.Write(LogLevel::kWarning, absl::StrCat(options_.address, ": ", what),
                    MonotonicClock().Now());
}

void RpcDoor::HangUpOnMost() {
  std::map<uint64_t, std::vector<int>> by_owner;
  for (const auto& [fd, connection] : connections_) {
    if (!connection.hung_up) by_owner[connection.owner].push_back(fd);
  }
  std::vector<std::vector<int>> owners;
  owners.reserve(by_owner.size());
  for (auto& [owner, fds] : by_owner) owners.push_back(std::move(fds));
  std::sort(owners.begin(), owners.end(),
            [](const auto& a, const auto& b) { return a.size() > b.size(); });
  const auto open = std::count_if(connections_.begin(), connections_.end(),
                                  [](const auto& each) { return !each.second.hung_up; });
  size_t hung_up = 0;
  for (const std::vector<int>& fds : owners) {
    if (2 * hung_up >= static_cast<size_t>(open)) break;
    for (const int fd : fds) HangUp(fd);
    hung_up += fds.size();
  }
  Complain(absl::StrCat("memory is short; hung up on ", hung_up, " of ", open, " connections"));
}

void RpcDoor::Accept(int listener) {
  const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // The process has no descriptor left. The connection stays pending, and epoll would report it
    // at once.
    if (errno == EMFILE || errno == ENFILE) absl::SleepFor(kNoDescriptorPause);
    return;
  }
  const int seen = MayEnter(fd) ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  if (seen < 0) {
    close(fd);
    return;
  }
  connections_[seen] = {.owner = OwnerOf(seen),
                        .uid = PeerOf(seen).value_or(SocketPeer()).uid,
                        .grpcs_fd = fd,
                        .number = came_++,
                        .socket = InodeOf(seen)};
  // Only the hangup is reported here, once; all other events of the socket are gRPC's to handle.
  Watch(epoll_fd_, seen, EPOLLET);
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener;
  connection.fd = fd;
  acceptor_->HandleNewConnection(&connection);
  // gRPC has made its part of the connection by now. One that it does not count, the door could not
  // bound.
  const int64_t number = NewestConnection(server_number_, newest_counted_);
  connections_[seen].watch = ConnectionWatch(number);
  newest_counted_ = std::max(newest_counted_, number);
  if (number == 0) HangUp(seen);
}

bool RpcDoor::MayEnter(int fd) {
  const uint64_t owner = OwnerOf(fd);
  const auto of_owner =
      std::count_if(connections_.begin(), connections_.end(),
                    [owner](const auto& each) { return each.second.owner == owner; });
  if (static_cast<size_t>(of_owner) >= kMaxConnectionsPerCaller) {
    Complain(absl::StrCat("one caller has ", of_owner, " connections; more are hung up on"));
    return false;
  }
  if (!unix_listener_) return HasPlace();
  const std::optional<SocketPeer> peer = PeerOf(fd);
  if (!peer) {
    Complain("a user is not known");
    return false;
  }
  return UserMayEnter(*peer);
}

bool RpcDoor::HasPlace() {
  if (connections_.size() < options_.limits.connections) return true;
  Complain(absl::StrCat("all ", options_.limits.connections,
                        " connections are in use; more are hung up on"));
  return false;
}

bool RpcDoor::UserMayEnter(const SocketPeer& peer) {
  if (std::find(options_.uids.begin(), options_.uids.end(), peer.uid) == options_.uids.end()) {
    Complain(absl::StrCat("uid ", peer.uid, " may not connect"));
    return false;
  }
  const bool is_full = connections_.size() >= options_.limits.connections;
  if (!is_full && LeavesOthersTheirs(peer.uid)) return true;
  if (MakesRoomFor(peer)) return true;
  if (is_full) return HasPlace();
  Complain(absl::StrCat("uid ", peer.uid, " has all connections but those kept for other users; ",
                        "more are hung up on"));
  return false;
}

bool RpcDoor::MakesRoomFor(const SocketPeer& peer) {
  if (!options_.has_proven || !options_.has_proven(peer.caller)) return false;
  // A connection that is hung up counts until gRPC has let go of it: for a moment there are more.
  if (connections_.size() >= options_.limits.connections + kMaxConnectionsPerCaller) return false;
  std::map<uint64_t, size_t> unproven;
  for (const auto& [fd, connection] : connections_) {
    if (connection.uid != peer.uid || connection.hung_up) continue;
    if (!options_.has_proven(connection.owner)) ++unproven[connection.owner];
  }
  const auto most =
      std::max_element(unproven.begin(), unproven.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == unproven.end()) return false;
  int oldest = -1;
  for (const auto& [fd, connection] : connections_) {
    if (connection.owner != most->first || connection.hung_up) continue;
    if (oldest < 0 || connection.number < connections_[oldest].number) oldest = fd;
  }
  HangUp(oldest);
  Complain(absl::StrCat("hung up on a caller without a session, one of ", most->second,
                        " connections, for one with a session"));
  return true;
}

bool RpcDoor::LeavesOthersTheirs(uint32_t uid) const {
  const size_t part = options_.limits.connections / 2 / options_.uids.size();
  const auto had_by = [this](uint32_t user) {
    return static_cast<size_t>(
        std::count_if(connections_.begin(), connections_.end(),
                      [user](const auto& each) { return each.second.uid == user; }));
  };
  if (had_by(uid) < part) return true;
  size_t kept = 0;
  for (const uint32_t other : options_.uids) {
    if (other != uid) kept += part - std::min(part, had_by(other));
  }
  return connections_.size() + kept < options_.limits.connections;
}

}  // namespace kvtier
