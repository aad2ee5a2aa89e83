#include "tests/testing/fake_agent.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "core/check.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "proto/layout_digest.h"
#include "tests/testing/fake_worker_service.h"

namespace kvtier::testing {

// Knobs is the state that the handshake thread reads. The thread reads each field independently, so
// relaxed loads would be enough.
struct FakeAgent::Knobs {
  std::atomic<bool> hang_handshakes{false};
  std::atomic<wire::WelcomeCode> answer{wire::WelcomeCode::kOk};
  std::atomic<uint16_t> version{wire::kSessionVersion};
  std::atomic<uint16_t> min_version{wire::kMinSessionVersion};
  std::atomic<uint64_t> layout{wire::LayoutDigest(wire::kSessionVersion)};
  std::atomic<uint64_t> pool_version{1};
};

// Incarnation is one life of the agent, with its sockets, its memory and its thread.
class FakeAgent::Incarnation {
 public:
  Incarnation(const FakeAgentOptions& options, const Knobs& knobs)
      : options_(options), knobs_(knobs), service_(options) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + options.socket_dir + "/" + wire::kControlSocketName,
                             grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    KVT_CHECK(server_ != nullptr);
    Listen();
    thread_ = std::thread([this] { Serve(); });
  }

  ~Incarnation() {
    // The session sockets close first, as those of a killed process do.
    const uint64_t one = 1;
    KVT_CHECK(write(stop_fd_, &one, sizeof(one)) == sizeof(one));
    thread_.join();
    service_.Stop();
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    close(listen_fd_);
    close(stop_fd_);
    unlink(SocketPath().c_str());
  }

  FakeWorkerService& service() { return service_; }

 private:
  struct Peer {
    std::array<uint8_t, 32> nonce{};
    bool challenged = false;
    std::string token;  // Token of the session; empty: the handshake is not over.
  };

  std::string SocketPath() const { return options_.socket_dir + "/" + wire::kDescriptorSocketName; }

  void Listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = SocketPath();
    KVT_CHECK(path.size() < sizeof(address.sun_path));
    std::copy(path.begin(), path.end(), address.sun_path);
    unlink(path.c_str());
    listen_fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    KVT_CHECK(bind(listen_fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    KVT_CHECK(listen(listen_fd_, 16) == 0);
    stop_fd_ = eventfd(0, EFD_CLOEXEC);
  }

  void Serve() {
    for (;;) {
      std::vector<pollfd> fds = {{stop_fd_, POLLIN, 0}, {listen_fd_, POLLIN, 0}};
      for (const auto& [fd, peer] : peers_) fds.push_back({fd, POLLIN, 0});
      KVT_CHECK(poll(fds.data(), fds.size(), -1) > 0);
      if (fds[0].revents != 0) break;
      if (fds[1].revents != 0) Accept();
      for (size_t i = 2; i < fds.size(); ++i) {
        if (fds[i].revents != 0 && !ServePacket(fds[i].fd, &peers_[fds[i].fd])) Close(fds[i].fd);
      }
    }
    while (!peers_.empty()) Close(peers_.begin()->first);
  }

  void Accept() {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    KVT_CHECK(fd >= 0);
    Peer& peer = peers_[fd];
    if (knobs_.hang_handshakes) return;
    for (uint8_t& byte : peer.nonce) byte = static_cast<uint8_t>(random_());
    peer.challenged = true;
    Send(fd,
         wire::Challenge{
             .version = knobs_.version, .min_version = knobs_.min_version, .nonce = peer.nonce});
  }

  // Answers one packet; returns false if the session is over.
  bool ServePacket(int fd, Peer* peer) {
    std::array<std::byte, 256> buffer;
    const ssize_t size = recv(fd, buffer.data(), buffer.size(), 0);
    if (size <= 0) return false;
    const std::span packet(buffer.data(), static_cast<size_t>(size));
    if (peer->token.empty()) return Welcome(fd, peer, packet);
    const auto request = wire::ParseDescriptorRequest(packet);
    return request.ok() && HandOut(fd, *request);
  }

  bool Welcome(int fd, Peer* peer, std::span<const std::byte> packet) {
    const auto hello = wire::ParseHello(packet);
    if (!hello.ok() || !peer->challenged) return false;
    wire::Welcome welcome{.version = knobs_.version,
                          .min_version = knobs_.min_version,
                          .code = knobs_.answer,
                          .may_write = options_.may_write ? uint16_t{1} : uint16_t{0},
                          .layout = knobs_.layout};
    if (hello->layout != welcome.layout) welcome.code = wire::WelcomeCode::kLayoutMismatch;
    const SessionKey key = SessionKey::FromSecret(options_.tenant_secret);
    const bool is_asked = hello->group.data() == options_.group;
    if (!is_asked || hello->proof != wire::SessionProof(key, peer->nonce)) {
      welcome.code = wire::WelcomeCode::kUnknownTenant;
    }
    if (welcome.code == wire::WelcomeCode::kOk) {
      for (uint8_t& byte : welcome.session_token) byte = static_cast<uint8_t>(random_());
      peer->token.assign(welcome.session_token.begin(), welcome.session_token.end());
      service_.OpenSession(peer->token);
    }
    Send(fd, welcome);
    return welcome.code == wire::WelcomeCode::kOk;
  }

  const FakeMemory* MemoryOf(wire::DescriptorKind kind) {
    switch (kind) {
      case wire::DescriptorKind::kGpuPool:
        return service_.gpu_pool();
      case wire::DescriptorKind::kSignalPage:
        return service_.signal_page();
      case wire::DescriptorKind::kLifeline:  // A hangup frees all that its session had.
      case wire::DescriptorKind::kResidency:
        return nullptr;
      default:
        return &service_.arena();
    }
  }

  bool HandOut(int fd, const wire::DescriptorRequest& request) {
    const wire::DescriptorKind kind = request.kind;
    if (kind == wire::DescriptorKind::kResidency && options_.has_residency) {
      const SealedMemory& table = service_.residency();
      return SendWith(fd, {.bytes = table.bytes().size()}, table.read_only_fd());
    }
    const FakeMemory* const memory = MemoryOf(kind);
    if (memory == nullptr) {
      Send(fd, wire::DescriptorReply{.code = wire::DescriptorCode::kNotAvailable});
      return true;
    }
    wire::DescriptorReply reply{.bytes = memory->bytes()};
    if (kind == wire::DescriptorKind::kGpuPool) reply.version = reply.since = knobs_.pool_version;
    return SendWith(fd, reply,
                    kind == wire::DescriptorKind::kArenaRead ? memory->read_only_fd()
                                                             : memory->read_write_fd());
  }

  static bool SendWith(int fd, wire::DescriptorReply reply, int passed) {
    iovec parts = {.iov_base = &reply, .iov_len = sizeof(reply)};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &parts;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &passed, sizeof(passed));
    return sendmsg(fd, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(parts.iov_len);
  }

  template <typename Packet>
  void Send(int fd, const Packet& packet) {
    // A client that is gone shows as a hangup in the next turn of the loop.
    static_cast<void>(send(fd, &packet, sizeof(packet), MSG_NOSIGNAL));
  }

  void Close(int fd) {
    service_.CloseSession(peers_[fd].token);
    peers_.erase(fd);
    close(fd);
  }

  const FakeAgentOptions& options_;
  const Knobs& knobs_;
  FakeWorkerService service_;
  std::unique_ptr<grpc::Server> server_;
  int listen_fd_ = -1;
  int stop_fd_ = -1;
  std::random_device random_;
  std::map<int, Peer> peers_;  // Peers by descriptor; only the thread uses them.
  std::thread thread_;
};

FakeAgent::FakeAgent(FakeAgentOptions options)
    : options_(std::move(options)), knobs_(std::make_unique<Knobs>()) {}

FakeAgent::~FakeAgent() { Kill(); }

void FakeAgent::Start() {
  KVT_CHECK(incarnation_ == nullptr);
  incarnation_ = std::make_unique<Incarnation>(options_, *knobs_);
}

void FakeAgent::Kill() { incarnation_.reset(); }

void FakeAgent::HangCalls(Hang hang) { incarnation_->service().SetHang(hang); }
void FakeAgent::Resume() { incarnation_->service().SetHang(std::nullopt); }
void FakeAgent::SlowDown(absl::Duration delay) { incarnation_->service().SetDelay(delay); }
void FakeAgent::HangHandshakes(bool hang) { knobs_->hang_handshakes = hang; }
void FakeAgent::AnswerSessions(wire::WelcomeCode code) { knobs_->answer = code; }
void FakeAgent::SpeakVersions(uint16_t newest, uint16_t oldest) {
  knobs_->version = newest;
  knobs_->min_version = oldest;
}
void FakeAgent::LayOutAs(uint64_t digest) { knobs_->layout = digest; }
void FakeAgent::TellPoolVersions(uint64_t answered, uint64_t handed_out) {
  knobs_->pool_version = handed_out;
  incarnation_->service().SetPoolVersion(answered);
}
void FakeAgent::GrowResidency() { incarnation_->service().GrowResidency(); }
void FakeAgent::ForgetSessions() { incarnation_->service().CloseAllSessions(); }
void FakeAgent::BreakSessions(absl::StatusCode code) {
  incarnation_->service().BreakSessions(code);
}
FakeAgentCounts FakeAgent::Counts() const { return incarnation_->service().Counts(); }

}  // namespace kvtier::testing
