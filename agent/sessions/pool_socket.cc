#include "agent/sessions/pool_socket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "agent/sessions/descriptor_socket.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/kill_point.h"
#include "core/listening_socket.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "proto/socket_names.h"

namespace kvtier {
namespace {

// The largest packet of the protocol is a Hello; one byte more shows a longer one.
constexpr size_t kPacketBytes = sizeof(wire::Hello) + 1;
// More than come along with an honest packet are cut off, and closed by the kernel.
constexpr size_t kMaxDescriptors = 1;

int PollMilliseconds(absl::Time deadline) {
  const absl::Duration left = deadline - MonotonicClock().Now();
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(left) + 1, 0, 60'000));
}

bool AwaitReadable(int fd, absl::Time deadline) {
  while (MonotonicClock().Now() < deadline) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, PollMilliseconds(deadline)) > 0) return true;
  }
  return false;
}

// A packet and what came with it, which is closed with this.
struct Received {
  std::array<std::byte, kPacketBytes> buffer{};
  size_t bytes = 0;
  int descriptor = -1;

  Received() = default;
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;
  ~Received() {
    if (descriptor >= 0) close(descriptor);
  }
  std::span<const std::byte> packet() const { return std::span(buffer).first(bytes); }
};

// False: nothing came before the deadline, or the other side hung up.
bool Receive(int fd, absl::Time deadline, Received* received) {
  if (!AwaitReadable(fd, deadline)) return false;
  iovec part{.iov_base = received->buffer.data(), .iov_len = received->buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (bytes <= 0) return false;
  received->bytes = static_cast<size_t>(bytes);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    memcpy(&received->descriptor, CMSG_DATA(header), sizeof(int));
  }
  return true;
}

template <typename Packet>
bool Send(int fd, const Packet& packet) {
  return send(fd, &packet, sizeof(packet), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(packet));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PoolSocket>> PoolSocket::Listen(const Options& options) {
  KVT_ASSIGN_OR_RETURN(const int fd, ListenUnix(options.path, SOCK_SEQPACKET, kWorkerSocketMode));
  const int stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  KVT_CHECK(stop_fd >= 0);
  return absl::WrapUnique(new PoolSocket(options, fd, stop_fd));
}

PoolSocket::PoolSocket(const Options& options, int listen_fd, int stop_fd)
    : options_(options),
      tenant_(options.ledger->terms().tenant),
      incarnation_(options.ledger->incarnation()),
      shape_(options.ledger->terms().shape),
      handles_(options.ledger->handles_in_use()),
      wanted_handles_(handles_),
      workers_(options.ledger->Workers()),
      listen_fd_(listen_fd),
      stop_fd_(stop_fd) {}

PoolSocket::~PoolSocket() {
  const uint64_t one = 1;
  KVT_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
  if (thread_.joinable()) thread_.join();
  for (const auto& [process, place] : processes_) close(process);
  close(listen_fd_);
  close(stop_fd_);
  unlink(options_.path.c_str());
}

bool PoolSocket::AwaitPool(absl::Time deadline, Import import) {
  while (AwaitReadable(listen_fd_, deadline)) {
    if (Take(&import)) return true;
  }
  return false;
}

bool PoolSocket::Take(const Import* import) {
  const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return false;
  const bool brought = Converse(fd, MonotonicClock().Now() + kPoolOfferTimeout, import);
  close(fd);
  return brought;
}

bool PoolSocket::Converse(int fd, absl::Time deadline, const Import* import) {
  if (!Authenticate(fd, deadline)) return false;
  Received received;
  if (!Receive(fd, deadline, &received)) return false;
  wire::PoolAnswer answer{.code = wire::PoolAnswerCode::kMalformed};
  const absl::StatusOr<wire::PoolOffer> offer = wire::ParsePoolOffer(received.packet());
  if (offer.ok()) answer.code = TakePage(*offer, received.descriptor);
  const bool taken = answer.code == wire::PoolAnswerCode::kTaken;
  // A worker that does not map all of it has told us of its steps.
  if (!taken || import == nullptr || offer->handles < wanted_handles_) {
    if (!taken) {
      Log(LogLevel::kWarning, absl::StrCat("GPU pool: an offer was refused: ",
                                           offer.ok() ? "of another pool, or without its page"
                                                      : offer.status().message()));
    }
    Send(fd, answer);
    return false;
  }
  answer.code = wire::PoolAnswerCode::kSendHandles;
  if (!Send(fd, answer)) return false;
  answer.code = TakeHandles(fd, deadline, offer->handles, *import);
  Send(fd, answer);
  return answer.code == wire::PoolAnswerCode::kTaken;
}

bool PoolSocket::Authenticate(int fd, absl::Time deadline) {
  const auto say = [fd](const wire::Welcome& welcome) {
    return Send(fd, welcome) && welcome.code == wire::WelcomeCode::kOk;
  };
  const auto refuse = [&say](wire::WelcomeCode code) { return say({.code = code}); };
  wire::Challenge challenge;
  KVT_CHECK(getrandom(challenge.nonce.data(), challenge.nonce.size(), 0) ==
            static_cast<ssize_t>(challenge.nonce.size()));
  Received received;
  if (!Send(fd, challenge) || !Receive(fd, deadline, &received)) return false;
  ucred peer{};
  socklen_t size = sizeof(peer);
  const std::vector<uid_t>& allowed = options_.allowed_uids;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      std::find(allowed.begin(), allowed.end(), peer.uid) == allowed.end()) {
    return refuse(wire::WelcomeCode::kForbiddenUser);
  }
  const absl::StatusOr<wire::Hello> hello = wire::ParseHello(received.packet());
  if (!hello.ok()) return refuse(wire::WelcomeCode::kMalformed);
  const wire::Welcome welcome = wire::AnswerTo(*hello);
  if (welcome.code != wire::WelcomeCode::kOk) return say(welcome);
  // Another tenant is told no more than one whose proof is wrong.
  const Tenant* const tenant = ProvenTenant(options_.tenants, *hello, challenge.nonce);
  const bool owner = tenant != nullptr && tenant->name == tenant_;
  return owner ? say(welcome) : refuse(wire::WelcomeCode::kUnknownTenant);
}

wire::PoolAnswerCode PoolSocket::TakePage(const wire::PoolOffer& offer, int descriptor) {
  if (offer.incarnation != incarnation_ || offer.handle_bytes != shape_.handle_bytes ||
      offer.max_handles != shape_.max_handles) {
    return wire::PoolAnswerCode::kOtherPool;
  }
  const absl::StatusOr<PageId> id = PageIdOf(descriptor);
  absl::StatusOr<std::unique_ptr<SignalPage>> page = SignalPage::Import(descriptor);
  if (!id.ok() || !page.ok()) return wire::PoolAnswerCode::kNoDescriptor;
  KVT_KILL_POINT("gpu.take_page");
  OfferedPage offered{.id = *id, .page = *std::move(page)};
  if (calls_.offered != nullptr) {
    calls_.offered(std::move(offered));
  } else {
    pages_.push_back(std::move(offered));
  }
  return wire::PoolAnswerCode::kTaken;
}

wire::PoolAnswerCode PoolSocket::TakeHandles(int fd, absl::Time deadline, uint32_t handles,
                                             const Import& import) {
  std::vector<std::unique_ptr<Received>> received;
  std::vector<int> descriptors;
  received.reserve(handles);
  descriptors.reserve(handles);
  for (uint32_t index = 0; index < handles; ++index) {
    received.push_back(std::make_unique<Received>());
    Received& handle = *received.back();
    if (!Receive(fd, deadline, &handle)) return wire::PoolAnswerCode::kOtherPool;
    if (!wire::CheckPoolHandle(handle.packet(), index).ok()) {
      return wire::PoolAnswerCode::kMalformed;
    }
    if (handle.descriptor < 0) return wire::PoolAnswerCode::kNoDescriptor;
    descriptors.push_back(handle.descriptor);
  }
  // It may still map what the pool has given back.
  const absl::Status imported =
      import(std::span(descriptors).first(std::min(descriptors.size(), handles_)));
  KVT_KILL_POINT("gpu.take_handles");
  if (imported.ok()) return wire::PoolAnswerCode::kTaken;
  Log(LogLevel::kWarning, absl::StrCat("GPU pool: an offer was refused: ", imported.message()));
  return wire::PoolAnswerCode::kNoDescriptor;
}

void PoolSocket::Serve(Calls calls) {
  calls_ = std::move(calls);
  for (const PoolLedger::Worker& worker : workers_) {
    const int process = WatchProcess(worker.process);
    if (process >= 0) {
      processes_[process] = worker.place;
    } else if (HasEnded(worker.process)) {
      calls_.gone(worker.place);
    }
  }
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "pool-offers");
}

void PoolSocket::Run() {
  for (;;) {
    std::vector<pollfd> ready = {{.fd = stop_fd_, .events = POLLIN, .revents = 0},
                                 {.fd = listen_fd_, .events = POLLIN, .revents = 0}};
    for (const auto& [process, place] : processes_) {
      ready.push_back({.fd = process, .events = POLLIN, .revents = 0});
    }
    if (poll(ready.data(), ready.size(), -1) < 0) continue;
    if (ready[0].revents != 0) return;
    if (ready[1].revents != 0) Take(nullptr);
    for (const pollfd& process : std::span(ready).subspan(2)) {
      if (process.revents == 0) continue;
      calls_.gone(processes_.at(process.fd));
      processes_.erase(process.fd);
      close(process.fd);
    }
  }
}

}  // namespace kvtier
