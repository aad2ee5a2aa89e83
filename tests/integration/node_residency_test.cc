// Tests the residency table of a real agent as its workers see it: as it grows, as blocks move
// between tiers, and after the agent was killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

// More than the first table of a domain takes before it doubles, and before it doubles again.
constexpr Blocks kMany = {.first = 0, .count = 8000};
constexpr Blocks kFew = {.first = 0, .count = 100};
constexpr Blocks kNever = {.first = 1'000'000, .count = 2000};

class NodeResidencyTest : public ::testing::Test {
 protected:
  std::vector<Residence> Said(Blocks blocks) {
    std::vector<Residence> said(blocks.count);
    EXPECT_EQ(worker_.client().Residences(worker_.space(), worker_.KeysOf(blocks), said),
              absl::OkStatus());
    return said;
  }
  size_t Count(Blocks blocks, Residence residence) {
    const std::vector<Residence> said = Said(blocks);
    return static_cast<size_t>(std::count(said.begin(), said.end(), residence));
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"host_bytes", "64MiB"}, {"disk_bytes", "256MiB"}, {"segment_bytes", "16MiB"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir(), .block_bytes = 4096}};
};

TEST_F(NodeResidencyTest, AWorkerFollowsATableThatGrows) {
  // Puts a few blocks at a time. No table may say that a block is absent once its put was answered,
  // also while the agent replaces the table.
  for (uint64_t first = 0; first < kMany.count; first += 1000) {
    ASSERT_EQ(worker_.Put({.first = first, .count = 1000}), 1000);
    EXPECT_EQ(Count({.first = first, .count = 1000}, Residence::kAbsent), 0);
  }
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    return Count(kMany, Residence::kPerhaps) + Count(kNever, Residence::kPerhaps) <= 20;
  }));
  EXPECT_GE(Count(kNever, Residence::kAbsent), kNever.count - 20);
  EXPECT_EQ(worker_.client().Stats().sessions, 1);
}

TEST_F(NodeResidencyTest, AfterAKillTheNextAgentsTableHasWhatTheDisksHave) {
  ASSERT_EQ(worker_.Put(kFew), kFew.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  EXPECT_EQ(Count(kFew, Residence::kHost), kFew.count);
  agent_.Kill();
  EXPECT_TRUE(Await(absl::Seconds(10), [&] {
    return Count(kFew, Residence::kAbsent) == kFew.count;
  })) << "nothing can be had without an agent";
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_EQ(Count(kFew, Residence::kDisk), kFew.count);
  EXPECT_EQ(Count(kNever, Residence::kAbsent), kNever.count);
  EXPECT_EQ(worker_.Get(kFew).size(), kFew.count);
  EXPECT_EQ(Count(kFew, Residence::kHost), kFew.count);
}

// A reader goes on while its agent dies again and again: each look ends, and blocks on disk are
// absent only while there is no agent.
TEST_F(NodeResidencyTest, ReadersGoOnWhileTheAgentIsKilled) {
  ASSERT_EQ(worker_.Put(kFew), kFew.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  std::atomic<bool> stopping = false;
  std::atomic<uint64_t> looks = 0;
  std::thread reader([&] {
    while (!stopping) {
      const size_t absent = Count(kFew, Residence::kAbsent);
      EXPECT_TRUE(absent == 0 || absent == kFew.count) << absent;
      ++looks;
    }
  });
  for (int round = 0; round < 3; ++round) {
    const uint64_t before = looks;
    agent_.Kill();
    ASSERT_TRUE(Await(absl::Seconds(10), [&] { return looks > before + 100; }));
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
    ASSERT_TRUE(worker_.AwaitConnected());
    EXPECT_EQ(Count(kFew, Residence::kDisk), kFew.count);
  }
  stopping = true;
  reader.join();
}

}  // namespace
}  // namespace kvtier::testing
