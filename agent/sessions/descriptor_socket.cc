#include "agent/sessions/descriptor_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/limits.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/socket_peer.h"
#include "core/status_macros.h"
#include "openssl/crypto.h"
#include "proto/socket_names.h"

namespace kvtier {
namespace {

// Sessions, and as many connections that have not said who they are.
constexpr size_t kMaxConnections = 2 * kMaxSessions;
constexpr absl::Duration kNoDescriptorPause = absl::Milliseconds(10);
// The largest packet of the protocol is a Hello; one byte more shows a longer one.
constexpr size_t kPacketBytes = sizeof(wire::Hello) + 1;

template <size_t kBytes>
void FillRandom(std::array<uint8_t, kBytes>* bytes) {
  KVT_CHECK(getrandom(bytes->data(), kBytes, 0) == static_cast<ssize_t>(kBytes));
}

template <typename Packet>
bool Send(int fd, const Packet& packet) {
  return send(fd, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(packet));
}

// Sends a packet with one descriptor beside it.
template <typename Packet>
bool SendWithDescriptor(int fd, const Packet& reply, int descriptor) {
  iovec part{.iov_base = const_cast<Packet*>(&reply), .iov_len = sizeof(reply)};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(reply));
}

void Watch(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  event.data.fd = fd;
  KVT_CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0);
}

// Returns the tenants of the session that was asked for, if the proof is that of its tenant's key
// and our nonce. nullopt: it is not, there is no such tenant, or no such share group with this
// member, which takes as long.
std::optional<SessionTenants> ProvenTenants(const TenantTable& tenants, const wire::Hello& hello,
                                            const std::array<uint8_t, 32>& nonce) {
  const Tenant* const tenant = tenants.FindAdmitted(hello.tenant.data());
  const std::optional<SessionTenants> of =
      tenants.Admitted(hello.tenant.data(), hello.group.data());
  // An unknown tenant costs the same proof: the two are not told apart.
  const std::array<uint8_t, 32> proof =
      wire::SessionProof(tenant != nullptr ? tenant->session_key : SessionKey(), nonce);
  if (CRYPTO_memcmp(proof.data(), hello.proof.data(), proof.size()) != 0) return std::nullopt;
  return of;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DescriptorSocket>> DescriptorSocket::Listen(Options options,
                                                                           Calls calls) {
  KVT_ASSIGN_OR_RETURN(UnixListener listener,
                       UnixListener::Listen(options.path, SOCK_SEQPACKET, kWorkerSocketMode));
  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KVT_CHECK(epoll_fd >= 0 && stop_fd >= 0);
  return std::unique_ptr<DescriptorSocket>(new DescriptorSocket(
      std::move(options), std::move(calls), std::move(listener), epoll_fd, stop_fd));
}

DescriptorSocket::DescriptorSocket(Options options, Calls calls, UnixListener listener,
                                   int epoll_fd, int stop_fd)
    : options_(std::move(options)),
      calls_(std::move(calls)),
      listener_(std::move(listener)),
      epoll_fd_(epoll_fd),
      stop_fd_(stop_fd),
      leaving_(epoll_fd, {.over = [this](SessionId session) { calls_.over(session); },
                          .gone = [this](SessionId session) { calls_.gone(session); }}),
      keep_file_at_(MonotonicClock().Now() + kKeepFileInterval) {
  Watch(epoll_fd_, listener_.fd());
  Watch(epoll_fd_, stop_fd_);
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "sessions");
}

DescriptorSocket::~DescriptorSocket() {
  const uint64_t one = 1;
  KVT_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  while (!connections_.empty()) Close(connections_.begin()->first);
  close(epoll_fd_);
  close(stop_fd_);
}

void DescriptorSocket::HangUp(SessionId session) {
  absl::MutexLock lock(&mu_);
  const auto found = open_.find(session);
  if (found != open_.end()) shutdown(found->second, SHUT_RDWR);
}

void DescriptorSocket::Run() {
  std::array<epoll_event, 64> events;
  const int sweep_ms = static_cast<int>(absl::ToInt64Milliseconds(kHelloTimeout / 2));
  while (true) {
    const int count = epoll_wait(epoll_fd_, events.data(), events.size(), sweep_ms);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_fd_) return;
      if (fd == listener_.fd()) {
        Accept();
        continue;
      }
      if (leaving_.OnReadable(fd, MonotonicClock().Now())) continue;
      const auto connection = connections_.find(fd);
      if (connection == connections_.end()) continue;
      if (!OnReadable(fd, &connection->second)) Close(fd);
    }
    CloseLateConnections();
    KeepFile();
  }
}

void DescriptorSocket::KeepFile() {
  const absl::Time now = MonotonicClock().Now();
  if (now < keep_file_at_) return;
  keep_file_at_ = now + kKeepFileInterval;
  const absl::StatusOr<bool> again = listener_.KeepFile();
  if (!again.ok()) {
    refusals_.Write(LogLevel::kWarning, std::string(again.status().message()), now);
  } else if (*again) {
    Watch(epoll_fd_, listener_.fd());
    refusals_.Write(LogLevel::kWarning,
                    absl::StrCat(options_.path, ": the socket was removed; listening again"), now);
  }
}

bool DescriptorSocket::MakeRoom() {
  std::map<uint64_t, size_t> silent;  // Number of each caller's.
  for (const auto& [fd, connection] : connections_) {
    if (!connection.open) ++silent[connection.caller];
  }
  const auto most =
      std::max_element(silent.begin(), silent.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == silent.end()) return false;
  auto oldest = connections_.end();
  for (auto it = connections_.begin(); it != connections_.end(); ++it) {
    if (it->second.open || it->second.caller != most->first) continue;
    if (oldest == connections_.end() || it->second.hello_by < oldest->second.hello_by) oldest = it;
  }
  const int fd = oldest->first;
  Send(fd, wire::Welcome{.code = wire::WelcomeCode::kTooManySessions});
  Close(fd);
  return true;
}

void DescriptorSocket::Accept() {
  const int fd = accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) {
    // Descriptors ran out: the connection stays pending, and epoll would say so at once.
    if (errno == EMFILE || errno == ENFILE) absl::SleepFor(kNoDescriptorPause);
    return;
  }
  const std::optional<SocketPeer> peer = PeerOf(fd);
  const bool allowed =
      peer.has_value() && std::find(options_.allowed_uids.begin(), options_.allowed_uids.end(),
                                    peer->uid) != options_.allowed_uids.end();
  wire::Challenge challenge;
  FillRandom(&challenge.nonce);
  const bool has_room = connections_.size() < kMaxConnections || (allowed && MakeRoom());
  if (!Send(fd, challenge) || !allowed || !has_room) {
    if (!allowed) {
      refusals_.Write(LogLevel::kWarning,
                      absl::StrCat("session refused: uid ", peer.value_or(SocketPeer()).uid,
                                   " is not allowed; add it to --allow_uids"),
                      MonotonicClock().Now());
    }
    Send(fd, wire::Welcome{.code = allowed ? wire::WelcomeCode::kTooManySessions
                                           : wire::WelcomeCode::kForbiddenUser});
    close(fd);
    return;
  }
  connections_[fd] = {.nonce = challenge.nonce,
                      .caller = peer->caller,
                      .pid = peer->pid,
                      .hello_by = MonotonicClock().Now() + kHelloTimeout};
  Watch(epoll_fd_, fd);
}

bool DescriptorSocket::OnReadable(int fd, Connection* connection) {
  std::array<std::byte, kPacketBytes> packet;
  const ssize_t bytes = recv(fd, packet.data(), packet.size(), MSG_DONTWAIT);
  if (bytes < 0) return errno == EAGAIN || errno == EINTR;
  if (bytes == 0) return false;  // The worker hung up.
  const std::span<const std::byte> received(packet.data(), static_cast<size_t>(bytes));
  return connection->open ? OnDescriptorRequest(fd, connection, received)
                          : OnHello(fd, connection, received);
}

bool DescriptorSocket::OnHello(int fd, Connection* connection, std::span<const std::byte> packet) {
  const auto refuse = [fd](wire::WelcomeCode code) {
    Send(fd, wire::Welcome{.code = code});
    return false;
  };
  const absl::StatusOr<wire::Hello> hello = wire::ParseHello(packet);
  if (!hello.ok()) return refuse(wire::WelcomeCode::kMalformed);
  wire::Welcome welcome = wire::AnswerTo(*hello);
  if (welcome.code != wire::WelcomeCode::kOk) {
    refusals_.Write(LogLevel::kError, absl::StrCat("session refused: ", wire::WhyRefused(*hello)),
                    MonotonicClock().Now());
    Send(fd, welcome);
    return false;
  }
  const auto of = ProvenTenants(*options_.tenants, *hello, connection->nonce);
  if (!of.has_value()) return refuse(wire::WelcomeCode::kUnknownTenant);
  FillRandom(&welcome.session_token);
  const absl::StatusOr<SessionId> session = calls_.open(*of, welcome.session_token);
  if (!session.ok()) {
    return refuse(absl::IsNotFound(session.status()) ? wire::WelcomeCode::kUnknownTenant
                                                     : wire::WelcomeCode::kTooManySessions);
  }
  connection->open = true;
  connection->session = *session;
  options_.proven->AddSession(connection->caller);
  {
    absl::MutexLock lock(&mu_);
    open_.emplace(*session, fd);
  }
  welcome.may_write = of->may_write ? 1 : 0;
  if (of->in_group()) welcome.group_key = of->home->key.bytes;
  // While the peer waits for our answer, its pid certainly names this process.
  connection->process = WatchPeer(fd, connection->pid);
  return Send(fd, welcome);
}

bool DescriptorSocket::OnDescriptorRequest(int fd, Connection* connection,
                                           std::span<const std::byte> packet) {
  const absl::StatusOr<wire::DescriptorRequest> request = wire::ParseDescriptorRequest(packet);
  if (!request.ok()) {
    return Send(fd, wire::DescriptorReply{.code = wire::DescriptorCode::kMalformed});
  }
  const absl::StatusOr<Shared> shared = request->kind == wire::DescriptorKind::kLifeline
                                            ? MakeLifeline(connection)
                                            : calls_.share({.session = connection->session,
                                                            .kind = request->kind,
                                                            .index = request->index,
                                                            .device = {request->device}});
  if (!shared.ok()) {
    return Send(fd, wire::DescriptorReply{.code = wire::DescriptorCode::kNotAvailable});
  }
  if (request->kind == wire::DescriptorKind::kSignalPage) connection->has_page = true;
  const wire::DescriptorReply reply{.bytes = shared->bytes,
                                    .handles = shared->handles,
                                    .max_handles = shared->max_handles,
                                    .version = shared->version,
                                    .since = shared->since,
                                    .device = shared->device.bytes,
                                    .moves = shared->moves};
  const bool sent = SendWithDescriptor(fd, reply, shared->fd);
  if (shared->duplicated) close(shared->fd);
  return sent;
}

absl::StatusOr<DescriptorSocket::Shared> DescriptorSocket::MakeLifeline(Connection* connection) {
  // A second one would leave open which of them speaks for the process.
  if (connection->lifeline >= 0) {
    return absl::AlreadyExistsError(
        "lifeline: this connection has been given one already; use that one");
  }
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a lifeline: ", strerror(errno)));
  }
  connection->lifeline = ends[0];
  return Shared{.fd = ends[1], .duplicated = true};
}

void DescriptorSocket::Close(int fd) {
  const auto found = connections_.find(fd);
  const Connection& connection = found->second;
  // This comes first: after it the worker no longer trusts slots that are freed below.
  shutdown(fd, SHUT_RDWR);
  if (connection.open) {
    absl::MutexLock lock(&mu_);
    open_.erase(connection.session);  // `fd` may soon be another connection's.
  }
  if (connection.open) options_.proven->EndSession(connection.caller);
  const bool may_write = connection.open && calls_.close(connection.session);
  // The steps that a worker began end with its process, not with its session, so `leaving_` watches
  // the process.
  if (may_write || connection.has_page) {
    leaving_.Add({.session = connection.session,
                  .process = connection.process,
                  .lifeline = connection.lifeline,
                  .has_steps = connection.has_page},
                 MonotonicClock().Now());
  } else {
    if (connection.process >= 0) close(connection.process);
    if (connection.lifeline >= 0) close(connection.lifeline);
  }
  connections_.erase(found);
  close(fd);  // Leaves the epoll set with it.
}

void DescriptorSocket::CloseLateConnections() {
  const absl::Time now = MonotonicClock().Now();
  std::vector<int> late;
  for (const auto& [fd, connection] : connections_) {
    if (!connection.open && connection.hello_by < now) late.push_back(fd);
  }
  for (const int fd : late) Close(fd);
  leaving_.Sweep(now);
}

}  // namespace kvtier
