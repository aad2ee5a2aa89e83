// Tests a real agent under a write policy: it counts the blocks that it declines, and goes on
// serving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::Each;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 48};
constexpr char kAgent[] = "node-a";

Flags FlagsOf(const Flags& more) {
  Flags flags = {{"disk_bytes", "16MiB"}, {"segment_bytes", "2MiB"}};
  flags.insert(more.begin(), more.end());
  return flags;
}

TEST(WriteBudgetTest, ATinyOneDeclinesAndCountsAndTheAgentGoesOn) {
  ProcessCluster cluster;
  // The budget is 14 MiB a day; one hour's part of it is some 600 KiB.
  AgentProcess& agent = cluster.StartAgent(kAgent, FlagsOf({{"disk_writes_per_day", "1"}}));
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(worker.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent.AwaitOffloaded());

  const v1::AgentStatusResponse status = agent.Status();
  const v1::OffloadReport& offload = status.offload();
  EXPECT_EQ(offload.policy(), "predicted_reuse");
  EXPECT_EQ(offload.moment(), "commit");
  EXPECT_GT(offload.written(), 0);
  EXPECT_GT(offload.over_budget() + offload.not_worth_it(), 0);
  EXPECT_EQ(offload.written() + offload.over_budget() + offload.not_worth_it(), kPrefix.count);
  const v1::DiskReport& disk = status.disks(0);
  EXPECT_EQ(disk.blocks(), offload.written());
  EXPECT_EQ(disk.budget_bytes_per_day(), disk.capacity_bytes());
  EXPECT_LT(disk.budget_left_bytes(), disk.capacity_bytes() / 24);
  EXPECT_GE(disk.written_bytes(), offload.written() * (64 << 10));
  EXPECT_GT(disk.write_amplification(), 1);
  EXPECT_EQ(agent.TierStatus(Tier::kDisk).declined(), 0) << "the disk was never behind";

  EXPECT_THAT(worker.Get(kPrefix), SizeIs(kPrefix.count));
  constexpr Blocks kMore = {.first = 1000, .count = 8};
  EXPECT_EQ(worker.Put(kMore), kMore.count);
  EXPECT_THAT(worker.Get(kMore), SizeIs(kMore.count));
}

TEST(WriteMomentTest, AtEvictionWhatFitsIntoHostMemoryIsNotWritten) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(
      kAgent, FlagsOf({{"disk_write_moment", "eviction"}, {"disk_write_policy", "all"}}));
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ASSERT_EQ(worker.Put(kPrefix), kPrefix.count);
  ASSERT_TRUE(agent.AwaitOffloaded());
  EXPECT_EQ(agent.Status().offload().moment(), "eviction");
  EXPECT_EQ(agent.TierStatus(Tier::kDisk).blocks(), 0);
  EXPECT_THAT(worker.Get(kPrefix), Each(BlockSource::kHost));
}

}  // namespace
}  // namespace kvtier::testing
