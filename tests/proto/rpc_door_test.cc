// Tests doors over real sockets: how many may come in, and that a place is free again when its
// connection is over.
#include "proto/rpc_door.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "core/socket_peer.h"
#include "core/start_progress.h"
#include "grpcpp/grpcpp.h"
#include "kvtier/v1/peer.grpc.pb.h"
#include "proto/starting_service.h"

namespace kvtier {
namespace {

// A connection that says nothing.
class SilentCaller {
 public:
  explicit SilentCaller(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  explicit SilentCaller(const std::string& path) : fd_(socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    Connect(reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
  ~SilentCaller() { close(fd_); }
  SilentCaller(const SilentCaller&) = delete;
  SilentCaller& operator=(const SilentCaller&) = delete;
  // Returns whether the door accepts this caller: gRPC then sends the first bytes, and otherwise
  // the stream ends.
  bool IsLetIn() {
    char byte = 0;
    return recv(fd_, &byte, 1, 0) == 1;
  }

 private:
  void Connect(const sockaddr* address, socklen_t size) {
    const timeval patience{.tv_sec = 20};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    EXPECT_EQ(connect(fd_, address, size), 0);
  }
  const int fd_;
};

// Returns services that answer each call with UNIMPLEMENTED.
std::array<grpc::Service*, 1> AnyService() {
  static v1::Peer::Service* const peer = new v1::Peer::Service;
  return {peer};
}

std::unique_ptr<RpcDoor> OpenDoor(size_t connections, std::function<bool()> is_memory_short = {}) {
  auto door = RpcDoor::Open({.name = "test",
                             .address = "127.0.0.1:0",
                             .health = true,
                             .limits = {.connections = connections,
                                        .calls = 4,
                                        .intake_bytes = size_t{1} << 20,
                                        .threads = 8},
                             .is_memory_short = std::move(is_memory_short)},
                            AnyService());
  EXPECT_TRUE(door.ok()) << door.status();
  return *std::move(door);
}

TEST(RpcDoorTest, OneConnectionTooManyIsHungUpOnAndTheOthersStay) {
  const std::unique_ptr<RpcDoor> door = OpenDoor(3);
  std::vector<std::unique_ptr<SilentCaller>> callers;
  for (int i = 0; i < 3; ++i) {
    callers.push_back(std::make_unique<SilentCaller>(door->port()));
    EXPECT_TRUE(callers.back()->IsLetIn()) << i;
  }
  EXPECT_FALSE(SilentCaller(door->port()).IsLetIn());
  // The next byte of gRPC's settings arrives at each caller that was accepted.
  for (const auto& caller : callers) EXPECT_TRUE(caller->IsLetIn());
}

TEST(RpcDoorTest, OneCallerDoesNotTakeAllPlaces) {
  const std::unique_ptr<RpcDoor> door = OpenDoor(2 * kMaxConnectionsPerCaller);
  std::vector<std::unique_ptr<SilentCaller>> callers;
  for (size_t i = 0; i < kMaxConnectionsPerCaller; ++i) {
    callers.push_back(std::make_unique<SilentCaller>(door->port()));
    EXPECT_TRUE(callers.back()->IsLetIn()) << i;
  }
  EXPECT_FALSE(SilentCaller(door->port()).IsLetIn());
}

TEST(RpcDoorTest, APlaceIsFreeAgainWhenItsConnectionIsOver) {
  const std::unique_ptr<RpcDoor> door = OpenDoor(1);
  EXPECT_TRUE(SilentCaller(door->port()).IsLetIn());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!SilentCaller(door->port()).IsLetIn()) ASSERT_LT(absl::Now(), deadline);
}

// PeerAt calls the peer service at a door.
class PeerAt {
 public:
  explicit PeerAt(const std::string& address)
      : stub_(v1::Peer::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()))) {
  }
  // Returns how the call ends. It waits until the door accepts it.
  grpc::Status Fetch() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::FetchChunk chunk;
    const auto reader = stub_->Fetch(&context, {});
    while (reader->Read(&chunk)) {
    }
    return reader->Finish();
  }

 private:
  const std::unique_ptr<v1::Peer::Stub> stub_;
};

// The parameter is the address, or the beginning of the path of a socket.
class FollowedDoorTest : public ::testing::TestWithParam<const char*> {
 protected:
  static RpcDoor::Options At(const std::string& address) {
    return {.name = "test",
            .address = address,
            .uids = {geteuid()},
            .health = true,
            .limits = {.connections = 8, .calls = 4, .intake_bytes = 1 << 20, .threads = 8}};
  }
};

TEST_P(FollowedDoorTest, ADoorOfAProgramThatStartsSaysSoAndAnotherAnswersInItsPlace) {
  const std::string address =
      GetParam()[0] == '/' ? absl::StrCat(GetParam(), getpid(), ".sock") : GetParam();
  StartProgress progress;
  StartingService starting("node-a", &progress);
  RpcDoor::Options options = At(address);
  options.starting = &starting;
  std::unique_ptr<RpcDoor> before = *RpcDoor::Open(std::move(options), {});
  const uint16_t port = before->port();
  PeerAt peer(address[0] == '/' ? absl::StrCat("unix:", address)
                                : absl::StrCat("127.0.0.1:", port));
  progress.Begin("takes memory", uint64_t{8} << 20);
  progress.AddDone(uint64_t{2} << 20);
  const grpc::Status refused = peer.Fetch();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(refused.error_message(),
            "node node-a is starting: it takes memory: 2 of 8 MiB; ask again when it is ready");
  const auto after = RpcDoor::Follow(std::move(before), At(address), AnyService());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ((*after)->port(), port);
  EXPECT_EQ(peer.Fetch().error_code(), grpc::StatusCode::UNIMPLEMENTED) << "the service's answer";
}

// A caller that comes while no door answers is not refused.
TEST_P(FollowedDoorTest, ACallerThatComesInBetweenIsAnswered) {
  const std::string address =
      GetParam()[0] == '/' ? absl::StrCat(GetParam(), getpid(), ".sock") : GetParam();
  StartProgress progress;
  StartingService starting("node-a", &progress);
  RpcDoor::Options options = At(address);
  options.starting = &starting;
  std::unique_ptr<RpcDoor> before = *RpcDoor::Open(std::move(options), {});
  const uint16_t port = before->port();
  before->Shutdown(MonotonicClock().Now());
  std::optional<SilentCaller> caller;
  if (address[0] == '/') {
    caller.emplace(address);
  } else {
    caller.emplace(port);
  }
  const auto after = RpcDoor::Follow(std::move(before), At(address), AnyService());
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_TRUE(caller->IsLetIn());
}

INSTANTIATE_TEST_SUITE_P(Addresses, FollowedDoorTest,
                         ::testing::Values("127.0.0.1:0", "/tmp/kvtier-followed-"),
                         [](const auto& each) { return each.param[0] == '/' ? "Unix" : "Tcp"; });

// SlowPeer is a peer service whose only fetch waits, like one that gRPC has not told that its
// caller is gone.
class SlowPeer final : public v1::Peer::Service {
 public:
  grpc::Status Fetch(grpc::ServerContext* /*context*/, const v1::FetchRequest* /*request*/,
                     grpc::ServerWriter<v1::FetchChunk>* /*writer*/) override {
    entered.Notify();
    may_end.WaitForNotification();
    return grpc::Status::OK;
  }
  absl::Notification entered;
  absl::Notification may_end;
};

TEST(RpcDoorTest, AConnectionCountsUntilItsCallsAreGone) {
  SlowPeer peer;
  const std::array<grpc::Service*, 1> services = {&peer};
  const auto door = RpcDoor::Open(
      {.name = "test",
       .address = "127.0.0.1:0",
       .limits = {.connections = 1, .calls = 4, .intake_bytes = size_t{1} << 20, .threads = 8}},
      services);
  ASSERT_TRUE(door.ok()) << door.status();
  {
    const auto stub = v1::Peer::NewStub(grpc::CreateChannel(
        absl::StrCat("127.0.0.1:", (*door)->port()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->Fetch(&context, v1::FetchRequest());
    peer.entered.WaitForNotification();
    context.TryCancel();
    stream->Finish();
  }
  EXPECT_FALSE(SilentCaller((*door)->port()).IsLetIn()) << "the caller is gone, its call is not";
  absl::SleepFor(absl::Milliseconds(200));
  EXPECT_FALSE(SilentCaller((*door)->port()).IsLetIn());
  peer.may_end.Notify();
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (!SilentCaller((*door)->port()).IsLetIn()) ASSERT_LT(absl::Now(), deadline);
}

TEST(RpcDoorTest, WhileMemoryIsShortTheCallersWithMostConnectionsAreHungUpOn) {
  std::atomic<bool> short_of_memory = false;
  const auto door = OpenDoor(8, [&] { return short_of_memory.load(); });
  std::vector<std::unique_ptr<SilentCaller>> callers;
  for (int i = 0; i < 4; ++i) {
    callers.push_back(std::make_unique<SilentCaller>(door->port()));
    EXPECT_TRUE(callers.back()->IsLetIn());
  }
  short_of_memory = true;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  for (const auto& caller : callers) {
    while (caller->IsLetIn()) ASSERT_LT(absl::Now(), deadline);  // Reads what was sent before.
  }
  short_of_memory = false;
  EXPECT_TRUE(SilentCaller(door->port()).IsLetIn());
}

TEST(RpcDoorTest, ADoorThatIsShutHangsUpOnThoseWithin) {
  const std::unique_ptr<RpcDoor> door = OpenDoor(1);
  SilentCaller caller(door->port());
  EXPECT_TRUE(caller.IsLetIn());
  door->Shutdown(MonotonicClock().Now());
  door->Shutdown(MonotonicClock().Now());
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (caller.IsLetIn()) ASSERT_LT(absl::Now(), deadline);  // Reads what was sent before.
}

TEST(RpcDoorTest, AUserThatIsNotOnTheListIsHungUpOn) {
  const std::string path = absl::StrCat("/tmp/kvtier-door-", getpid(), ".sock");
  for (const uint32_t uid : {geteuid(), geteuid() + 1}) {
    const auto door = RpcDoor::Open(
        {.name = "test",
         .address = path,
         .uids = {uid},
         .limits = {.connections = 1, .calls = 4, .intake_bytes = 1 << 20, .threads = 8}},
        AnyService());
    ASSERT_TRUE(door.ok()) << door.status();
    EXPECT_EQ(SilentCaller(path).IsLetIn(), uid == geteuid());
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "it goes with its door";
}

// Once, the processes of one tenant, each with the maximum number of connections, took all
// connections.
TEST(RpcDoorTest, AUserLeavesTheOthersTheirPartOfTheConnections) {
  const std::string path = absl::StrCat("/tmp/kvtier-door-", getpid(), ".sock");
  const auto door = RpcDoor::Open(
      {.name = "test",
       .address = path,
       .uids = {geteuid(), geteuid() + 1},
       .limits = {.connections = 8, .calls = 4, .intake_bytes = 1 << 20, .threads = 8}},
      AnyService());
  ASSERT_TRUE(door.ok()) << door.status();
  std::vector<std::unique_ptr<SilentCaller>> callers;
  for (int i = 0; i < 6; ++i) {
    callers.push_back(std::make_unique<SilentCaller>(path));
    EXPECT_TRUE(callers.back()->IsLetIn()) << i;
  }
  EXPECT_FALSE(SilentCaller(path).IsLetIn()) << "a quarter is kept for the other user";
}

// Once, idle connections of one pod shut the workers of the node out.
TEST(RpcDoorTest, ACallerWithASessionTakesThePlaceOfOneWithout) {
  const std::string path = absl::StrCat("/tmp/kvtier-door-", getpid(), ".sock");
  std::atomic<uint64_t> proven = 0;
  const auto door = RpcDoor::Open(
      {.name = "test",
       .address = path,
       .uids = {geteuid()},
       .limits = {.connections = 4, .calls = 4, .intake_bytes = 1 << 20, .threads = 8},
       .has_proven = [&](uint64_t caller) { return caller == proven; }},
      AnyService());
  ASSERT_TRUE(door.ok()) << door.status();
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  const pid_t other = fork();
  if (other == 0) {
    std::vector<std::unique_ptr<SilentCaller>> idle;
    for (int i = 0; i < 4; ++i) {
      idle.push_back(std::make_unique<SilentCaller>(path));
      if (!idle.back()->IsLetIn()) _exit(1);
    }
    if (write(told[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(read(told[0], &byte, 1), 1);
  EXPECT_FALSE(SilentCaller(path).IsLetIn()) << "it has no session";
  std::array<int, 2> pair{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  proven = PeerOf(pair[0])->caller;  // This process.
  for (const int fd : pair) close(fd);
  std::vector<std::unique_ptr<SilentCaller>> ours;
  for (int i = 0; i < 4; ++i) {
    ours.push_back(std::make_unique<SilentCaller>(path));
    EXPECT_TRUE(ours.back()->IsLetIn()) << i;
  }
  EXPECT_FALSE(SilentCaller(path).IsLetIn()) << "all who are within have a session";
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  for (const int fd : told) close(fd);
}

TEST(RpcDoorTest, ADoorWhoseFileIsRemovedListensAgain) {
  const std::string path = absl::StrCat("/tmp/kvtier-door-", getpid(), ".sock");
  const auto door = RpcDoor::Open(
      {.name = "test",
       .address = path,
       .uids = {geteuid()},
       .limits = {.connections = 4, .calls = 4, .intake_bytes = 1 << 20, .threads = 8}},
      AnyService());
  ASSERT_TRUE(door.ok()) << door.status();
  SilentCaller before(path);
  EXPECT_TRUE(before.IsLetIn());
  ASSERT_EQ(unlink(path.c_str()), 0);
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (access(path.c_str(), F_OK) != 0) {
    ASSERT_LT(absl::Now(), deadline);
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_TRUE(SilentCaller(path).IsLetIn());
  EXPECT_TRUE(before.IsLetIn()) << "who was within stays";  // The next byte of gRPC's settings.
}

}  // namespace
}  // namespace kvtier
