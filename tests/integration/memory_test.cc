// Tests the memory of a real agent beside its arena, under callers that try to exhaust it: it stays
// below the figure of agent/limits.h, and workers are served once the callers are gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "agent/limits.h"
#include "kvtier/v1/worker.pb.h"
#include "proto/session_wire.h"
#include "tests/testing/half_sender.h"
#include "tests/testing/high_water.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tests/testing/wire_keys.h"

namespace kvtier::testing {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr absl::Duration kAttack = absl::Seconds(8);
constexpr size_t kMostMemory = kMaxMemoryBesideArena + kMaxMemoryPerDisk;  // The agent has a disk.

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rlimit files{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 4096) GTEST_SKIP() << "too few descriptors allowed";
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  }
  // Returns a Match of 540 KB, with as many keys as a call may have and an unknown session.
  static std::string LargeRequest() {
    v1::MatchRequest request;
    request.set_session_token(std::string(16, 'x'));
    v1::Sequence* const sequence = request.add_sequences();
    for (int i = 0; i < 8192; ++i) AddWireKey(std::string(64, 'k'), sequence);
    return request.SerializeAsString();
  }
  // Runs `callers_each` callers in each of `processes` processes for kAttack; returns the most
  // memory that the agent had meanwhile, in bytes.
  size_t Attack(size_t processes, size_t callers_each, const HalfSender::Options& options) {
    std::vector<pid_t> children;
    for (size_t i = 0; i < processes; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        CallForAWhile(callers_each, options);
        _exit(0);
      }
      children.push_back(child);
    }
    const HighWater memory(agent_.process().pid());
    for (const pid_t child : children) waitpid(child, nullptr, 0);
    return memory.most();
  }
  static void CallForAWhile(size_t callers, const HalfSender::Options& options) {
    std::vector<std::unique_ptr<HalfSender>> senders(callers);
    const absl::Time end = absl::Now() + kAttack;
    while (absl::Now() < end) {
      for (std::unique_ptr<HalfSender>& sender : senders) {
        // A sender connects again when the agent has hung up.
        if (sender == nullptr || !sender->Step()) sender = std::make_unique<HalfSender>(options);
      }
    }
  }
  void ExpectServed() {
    TestWorker worker({.socket_dir = agent_.socket_dir()});
    // gRPC takes its time to give back what hundreds of thousands of calls held.
    EXPECT_TRUE(Await(absl::Seconds(100), [&] {
      return worker.AwaitConnected() && worker.Put({.first = 0, .count = 8}) == 8;
    }));
    EXPECT_TRUE(agent_.TryStatus().ok());
  }
  std::string WorkersSocket() const {
    return absl::StrCat(agent_.socket_dir(), "/", wire::kControlSocketName);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.AddAgent("node-a", {{"host_bytes", "64MiB"}});
};

// Once, 600 calls of 540 KB took 0.5 GB, and nothing bounded their number.
TEST_F(MemoryTest, RequestsWhoseLastByteNeverComesStayBelowTheFigure) {
  const size_t most = Attack(4, 60,
                             {.socket_path = WorkersSocket(),
                              .rpc = "/kvtier.v1.Worker/Match",
                              .message = LargeRequest()});
  RecordProperty("most_mib", static_cast<int>(most / kMiB));
  EXPECT_LE(most, kMostMemory);
  ExpectServed();
}

// The calls are small: gRPC's own memory for each, which no byte quota counts, is what they cost.
// One process gets 64 of the 1,200 connections that it wants.
TEST_F(MemoryTest, AMultitudeOfCallsStaysBelowTheFigure) {
  const size_t most = Attack(1, 1200,
                             {.socket_path = WorkersSocket(),
                              .rpc = "/kvtier.v1.Worker/Match",
                              .message = std::string(64, '\0')});
  RecordProperty("most_mib", static_cast<int>(most / kMiB));
  EXPECT_LE(most, kMostMemory);
  ExpectServed();
}

TEST_F(MemoryTest, AnswersThatNobodyReadsStayBelowTheFigure) {
  const size_t most = Attack(1, 60,
                             {.socket_path = WorkersSocket(),
                              .rpc = "/kvtier.v1.Worker/Match",
                              .message = LargeRequest(),
                              .held_back = 0,
                              .reads_answers = false});
  RecordProperty("most_mib", static_cast<int>(most / kMiB));
  EXPECT_LE(most, kMostMemory);
  ExpectServed();
}

TEST_F(MemoryTest, AllLeasesThatThereMayBeTakeWhatTheFigureSays) {
  constexpr size_t kRun = 8192;
  TestWorker first({.socket_dir = agent_.socket_dir(), .block_bytes = 4096});
  ASSERT_EQ(first.Put({.first = 0, .count = kRun}), kRun);
  const size_t before = PrivateBytesOf(agent_.process().pid());
  const absl::Time begun = absl::Now();
  std::vector<std::unique_ptr<TestWorker>> workers;
  std::vector<OnboardedBlocks> held;
  for (size_t leases = 0; leases < kMaxLeases; leases += kRun) {
    if (leases % kMaxLeasesPerSession == 0) {
      workers.push_back(std::make_unique<TestWorker>(
          TestWorkerOptions{.socket_dir = agent_.socket_dir(), .block_bytes = 4096}));
    }
    held.push_back(workers.back()->Hold({.first = 0, .count = kRun}));
    ASSERT_EQ(held.back().size(), kRun) << leases;
  }
  if (absl::Now() - begun > kLeaseDuration / 2) GTEST_SKIP() << "too slow: leases end meanwhile";
  EXPECT_EQ(agent_.Status().leases(), kMaxLeases);
  const size_t taken = PrivateBytesOf(agent_.process().pid()) - before;
  EXPECT_LE(taken, kMaxLeases * kBytesPerLease + 64 * kMiB) << "with the calls that asked";
  EXPECT_EQ(first.Hold({.first = 0, .count = 1}).size(), 0) << "no lease, no hit";
  held.clear();
  EXPECT_TRUE(agent_.AwaitLeases(0));
}

}  // namespace
}  // namespace kvtier::testing
