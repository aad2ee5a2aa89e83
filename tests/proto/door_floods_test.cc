// Tests doors under callers that send frames as fast as a socket takes them: the door hangs up on
// these, also while it shuts, and on nobody who gives up many calls.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/clock.h"
#include "grpcpp/grpcpp.h"
#include "kvtier/v1/peer.grpc.pb.h"
#include "proto/connection_counts.h"
#include "proto/floods.h"
#include "proto/rpc_door.h"
#include "tests/testing/frame_flood.h"
#include "tests/testing/patience.h"

namespace kvtier {
namespace {

using testing::FrameFlood;

constexpr char kFetch[] = "/kvtier.v1.Peer/Fetch";
constexpr int kCallsOfDoor = 256;  // Calls that the doors of these tests allow on one connection.

// LingeringPeer is a peer service whose fetches go on until End(), also when their caller is gone,
// like loads that run to their own deadline.
class LingeringPeer final : public v1::Peer::CallbackService {
 public:
  grpc::ServerWriteReactor<v1::FetchChunk>* Fetch(grpc::CallbackServerContext* /*context*/,
                                                  const v1::FetchRequest* /*request*/) override {
    auto* const call = new Call;
    absl::MutexLock lock(&mu_);
    if (has_ended_) {
      call->Finish(grpc::Status::OK);
    } else {
      calls_.push_back(call);
    }
    return call;
  }
  void AwaitCalls(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto came = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return calls_.size() >= count; };
    mu_.Await(absl::Condition(&came));
  }
  // Ends all calls, also those that come later.
  void End() {
    std::vector<Call*> calls;
    {
      absl::MutexLock lock(&mu_);
      has_ended_ = true;
      calls.swap(calls_);
    }
    for (Call* const call : calls) call->Finish(grpc::Status::OK);
  }

 private:
  struct Call final : grpc::ServerWriteReactor<v1::FetchChunk> {
    void OnDone() override { delete this; }
  };
  absl::Mutex mu_;
  std::vector<Call*> calls_ ABSL_GUARDED_BY(mu_);
  bool has_ended_ ABSL_GUARDED_BY(mu_) = false;
};

std::unique_ptr<RpcDoor> OpenDoor(const std::string& address, grpc::Service* service) {
  const std::array<grpc::Service*, 1> services = {service};
  auto door = RpcDoor::Open({.name = "test",
                             .address = address,
                             .uids = {geteuid()},
                             .limits = {.connections = 16,
                                        .calls = kCallsOfDoor,
                                        .intake_bytes = size_t{16} << 20,
                                        .threads = 8}},
                            services);
  EXPECT_TRUE(door.ok()) << door.status();
  return *std::move(door);
}

std::string SocketPath() { return absl::StrCat("/tmp/kvtier-floods-", getpid(), ".sock"); }

// More calls than any caller makes before the door looks.
constexpr uint32_t kManyCalls = 16 * kMaxUnfinishedCalls;

// Sends until the door hangs up; false: it does not.
bool IsHungUpOn(FrameFlood* flood) {
  const absl::Time deadline = absl::Now() + testing::Patience(absl::Seconds(20));
  while (absl::Now() < deadline) {
    pollfd ready{.fd = flood->fd(), .events = POLLIN | POLLOUT};
    poll(&ready, 1, 10);
    if (!flood->Step()) return true;
  }
  return false;
}

std::unique_ptr<v1::Peer::Stub> StubOf(const std::string& address) {
  return v1::Peer::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
}

// A fetch that runs until the door or the service ends it.
class Fetch final : public grpc::ClientReadReactor<v1::FetchChunk> {
 public:
  explicit Fetch(v1::Peer::Stub* stub) {
    context_.set_wait_for_ready(true);
    stub->async()->Fetch(&context_, &request_, this);
    StartCall();
  }
  void Cancel() { context_.TryCancel(); }
  void OnDone(const grpc::Status& status) override {
    status_ = status;
    done_.Notify();
  }
  bool is_done() const { return done_.HasBeenNotified(); }
  grpc::Status Await() {
    done_.WaitForNotification();
    return status_;
  }

 private:
  grpc::ClientContext context_;
  v1::FetchRequest request_;
  grpc::Status status_;
  absl::Notification done_;
};

// Once, six connections that reset each call as soon as it had begun took an agent to 6.8 GiB.
TEST(DoorFloodsTest, ACallerThatResetsItsCallsIsHungUpOn) {
  LingeringPeer peer;
  const auto door = OpenDoor("127.0.0.1:0", &peer);
  const std::string address = absl::StrCat("127.0.0.1:", door->port());
  const auto stub = StubOf(address);
  Fetch other(stub.get());
  peer.AwaitCalls(1);
  FrameFlood flood({.address = address, .rpc = kFetch, .most_calls = kManyCalls});
  EXPECT_TRUE(IsHungUpOn(&flood));
  EXPECT_FALSE(other.is_done()) << "the other connection stays";
  peer.End();
  EXPECT_TRUE(other.Await().ok());
}

TEST(DoorFloodsTest, ACallerOfAUnixSocketThatResetsItsCallsIsHungUpOn) {
  LingeringPeer peer;
  const auto door = OpenDoor(SocketPath(), &peer);
  FrameFlood flood({.address = SocketPath(), .rpc = kFetch, .most_calls = kManyCalls});
  EXPECT_TRUE(IsHungUpOn(&flood));
  peer.End();
}

TEST(DoorFloodsTest, ACallerThatSendsNoCallsIsHungUpOn) {
  LingeringPeer peer;
  const auto door = OpenDoor(SocketPath(), &peer);
  FrameFlood flood({.address = SocketPath(), .rpc = kFetch, .kind = FrameFlood::Kind::kOneHeader});
  EXPECT_TRUE(IsHungUpOn(&flood));
  peer.End();
}

TEST(DoorFloodsTest, ADoorThatShutsStillHangsUpOnFloods) {
  LingeringPeer peer;
  const auto door = OpenDoor("127.0.0.1:0", &peer);
  const std::string address = absl::StrCat("127.0.0.1:", door->port());
  const auto stub = StubOf(address);
  Fetch waiting(stub.get());
  peer.AwaitCalls(1);
  FrameFlood flood({.address = address, .rpc = kFetch, .kind = FrameFlood::Kind::kOneHeader});
  pollfd let_in{.fd = flood.fd(), .events = POLLIN};
  ASSERT_EQ(poll(&let_in, 1, 20'000), 1) << "gRPC sends the first bytes";
  std::thread shutting(
      [&] { door->Shutdown(MonotonicClock().Now() + testing::Patience(absl::Seconds(60))); });
  EXPECT_TRUE(IsHungUpOn(&flood));
  EXPECT_FALSE(waiting.is_done()) << "the door still waits for this call";
  peer.End();
  EXPECT_TRUE(waiting.Await().ok());
  shutting.join();
}

// A worker gives up its loads at its deadline and asks for others; those that it gave up run on.
TEST(DoorFloodsTest, ACallerThatGivesUpManyCallsStays) {
  LingeringPeer peer;
  const auto door = OpenDoor(SocketPath(), &peer);
  const auto stub = StubOf(absl::StrCat("unix:", SocketPath()));
  Fetch kept(stub.get());
  peer.AwaitCalls(1);
  constexpr size_t kRound = kCallsOfDoor / 2;
  size_t given_up = 0;
  while (given_up + kRound < kMaxUnfinishedCalls) {
    std::vector<std::unique_ptr<Fetch>> calls;
    for (size_t i = 0; i < kRound; ++i) calls.push_back(std::make_unique<Fetch>(stub.get()));
    peer.AwaitCalls(1 + given_up + kRound);
    for (const auto& call : calls) call->Cancel();
    for (const auto& call : calls) {
      EXPECT_EQ(call->Await().error_code(), grpc::StatusCode::CANCELLED);
    }
    given_up += kRound;
  }
  absl::SleepFor(10 * kLookInterval);
  EXPECT_FALSE(kept.is_done());
  peer.End();
  EXPECT_TRUE(kept.Await().ok());
}

TEST(DoorFloodsTest, GrpcCountsTheCallsOfAConnectionUntilTheyAreFreed) {
  LingeringPeer peer;
  const auto door = OpenDoor(SocketPath(), &peer);
  const int64_t server = NewestServer();
  EXPECT_EQ(NewestConnection(server, 0), 0) << "nobody has connected";
  const auto stub = StubOf(absl::StrCat("unix:", SocketPath()));
  Fetch first(stub.get());
  peer.AwaitCalls(1);
  const int64_t connection = NewestConnection(server, 0);
  ASSERT_NE(connection, 0);
  EXPECT_EQ(NewestConnection(server, connection), 0);
  Fetch second(stub.get());
  peer.AwaitCalls(2);
  second.Cancel();
  second.Await();
  const ConnectionCounts counts = CountsOf(connection);
  EXPECT_EQ(counts.begun, 2);
  EXPECT_EQ(counts.messages, 2);
  EXPECT_EQ(counts.freed, 0) << "the call that was given up still runs";
  peer.End();
  EXPECT_TRUE(first.Await().ok());
  EXPECT_TRUE(testing::Await(absl::Seconds(20), [&] { return CountsOf(connection).freed == 2; }));
}

}  // namespace
}  // namespace kvtier
