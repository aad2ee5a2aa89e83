// Tests real programs under connections that send HTTP/2 frames as fast as their sockets take them:
// memory stays bounded, other callers are answered meanwhile, and the programs stop when told to.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/limits.h"
#include "grpcpp/create_channel.h"
#include "kvtier/v1/admin.grpc.pb.h"
#include "proto/session_wire.h"
#include "tests/testing/frame_flood.h"
#include "tests/testing/high_water.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using Kind = FrameFlood::Kind;

constexpr int kConnections = 6;
constexpr absl::Duration kFlood = absl::Seconds(4);
constexpr absl::Duration kAskInterval = absl::Milliseconds(20);
// The longest that another caller waits for its answer.
constexpr absl::Duration kSlowestAnswer = absl::Seconds(2);
// A program that is told to stop ends within this time, also while it is flooded.
constexpr absl::Duration kStopLimit = absl::Seconds(15);

// Flooders is a process that floods a socket over kConnections connections, and connects again
// where it was hung up on.
class Flooders {
 public:
  explicit Flooders(const FrameFlood::Options& options) : child_(fork()) {
    if (child_ == 0) Flood(options);
  }
  ~Flooders() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  Flooders(const Flooders&) = delete;
  Flooders& operator=(const Flooders&) = delete;

 private:
  [[noreturn]] static void Flood(const FrameFlood::Options& options) {
    std::vector<std::unique_ptr<FrameFlood>> floods(kConnections);
    while (true) {
      std::vector<pollfd> ready;
      for (std::unique_ptr<FrameFlood>& flood : floods) {
        if (flood == nullptr || !flood->Step()) flood = std::make_unique<FrameFlood>(options);
        ready.push_back({.fd = flood->fd(), .events = POLLOUT});
      }
      poll(ready.data(), ready.size(), 1);
    }
  }
  const pid_t child_;
};

// Floods the process `pid` for kFlood, and calls `ask` all the time meanwhile, which returns
// whether it was answered.
void ExpectOthersAreServed(pid_t pid, const FrameFlood::Options& options,
                           const std::function<bool()>& ask) {
  ASSERT_TRUE(ask());
  const HighWater memory(pid);
  absl::Duration slowest;
  int asked = 0;
  int answered = 0;
  {
    const Flooders flooders(options);
    const absl::Time end = absl::Now() + kFlood;
    while (absl::Now() < end) {
      const absl::Time begun = absl::Now();
      ++asked;
      answered += ask() ? 1 : 0;
      slowest = std::max(slowest, absl::Now() - begun);
      absl::SleepFor(kAskInterval);
    }
  }
  EXPECT_EQ(answered, asked);
  EXPECT_LE(slowest, Patience(kSlowestAnswer));
  EXPECT_LE(memory.most(), kMaxMemoryBesideArena / 2) << (memory.most() >> 20) << " MiB";
  ::testing::Test::RecordProperty("most_mib", static_cast<int>(memory.most() >> 20));
  ::testing::Test::RecordProperty("slowest_ms",
                                  static_cast<int>(absl::ToInt64Milliseconds(slowest)));
}

class FloodsTest : public ::testing::Test {
 protected:
  // Returns a call that asks an agent for its status over TCP.
  static std::function<bool()> AskStatus(const AgentProcess& agent) {
    const std::shared_ptr<v1::AgentAdmin::Stub> stub = v1::AgentAdmin::NewStub(
        grpc::CreateChannel(agent.address(), grpc::InsecureChannelCredentials()));
    return [stub] {
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(std::chrono::system_clock::now() +
                           absl::ToChronoNanoseconds(Patience(absl::Seconds(20))));
      v1::AgentStatusResponse response;
      return stub->Status(&context, v1::AgentStatusRequest(), &response).ok();
    };
  }
  ProcessCluster cluster_;
};

class KindsOfFloodsTest : public FloodsTest, public ::testing::WithParamInterface<Kind> {};

TEST_P(KindsOfFloodsTest, OthersOfAnAgentsTcpPortAreAnswered) {
  AgentProcess& agent = cluster_.StartAgent("node-a");
  ExpectOthersAreServed(
      agent.process().pid(),
      {.address = agent.address(), .rpc = "/kvtier.v1.Peer/Fetch", .kind = GetParam()},
      AskStatus(agent));
}

INSTANTIATE_TEST_SUITE_P(Kinds, KindsOfFloodsTest,
                         ::testing::Values(Kind::kResetCalls, Kind::kOpenCalls, Kind::kPartialCalls,
                                           Kind::kHeaders, Kind::kOneHeader, Kind::kPings));

TEST_F(FloodsTest, WorkersAreServedWhileAnotherProcessResetsItsCalls) {
  AgentProcess& agent = cluster_.StartAgent("node-a");
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(worker.Put({.first = 0, .count = 8}), 8);
  ExpectOthersAreServed(agent.process().pid(),
                        {.address = absl::StrCat(agent.socket_dir(), "/", wire::kControlSocketName),
                         .rpc = "/kvtier.v1.Worker/Match"},
                        [&] { return worker.Hold({.first = 0, .count = 8}).size() == 8; });
}

TEST_F(FloodsTest, ACoordinatorAnswersOthersWhileACallerResetsItsCalls) {
  CoordinatorProcess& coordinator = cluster_.StartCoordinator();
  ExpectOthersAreServed(coordinator.process().pid(),
                        {.address = coordinator.address(), .rpc = "/kvtier.v1.Coordinator/Locate"},
                        [&] { return coordinator.TryStatus().ok(); });
}

TEST_F(FloodsTest, AnAgentStopsWhileCallersResetTheirCalls) {
  AgentProcess& agent = cluster_.StartAgent("node-a");
  const Flooders flooders({.address = agent.address(), .rpc = "/kvtier.v1.Peer/Fetch"});
  absl::SleepFor(absl::Seconds(1));
  EXPECT_EQ(agent.Stop(Patience(kStopLimit)), 0);
}

}  // namespace
}  // namespace kvtier::testing
