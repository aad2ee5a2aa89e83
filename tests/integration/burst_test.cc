// Tests a real agent and a burst beyond its host memory: what was acknowledged is found, and a
// commit can ask whether its blocks are durable.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{2} << 20;
constexpr size_t kSlots = 96;

// Once, a burst of 240 commits of 2 MiB into 80 slots was acknowledged whole, but only 107 blocks
// were found afterwards, and no error or log line said so.
TEST(BurstTest, WhatIsAcknowledgedIsFoundThoughItIsMoreThanHostMemoryHolds) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent("node-a", {{"host_bytes", "192MiB"},
                                                      {"slab_bytes", "8MiB"},
                                                      {"disk_bytes", "2GiB"},
                                                      {"segment_bytes", "64MiB"}});
  TestWorker worker(
      {.socket_dir = agent.socket_dir(), .block_bytes = kBlockBytes, .timeout = absl::Seconds(30)});
  constexpr size_t kBurst = 5 * kSlots / 2;
  for (uint64_t number = 0; number < kBurst; ++number) {
    ASSERT_EQ(worker.Put({.first = 10 * number, .count = 1}), 1) << number;
  }
  size_t found = 0;
  for (uint64_t number = 0; number < kBurst; ++number) {
    found += worker.Get({.first = 10 * number, .count = 1}).size();
  }
  EXPECT_EQ(found, kBurst);
  EXPECT_EQ(agent.Status().offload().declined_behind(), 0);
  EXPECT_EQ(agent.Status().offload().evicted(), 0);
}

TEST(BurstTest, ADurableCommitOutlivesKill9) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent("node-a", {{"disk_bytes", "256MiB"}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  constexpr Blocks kRun = {.first = 100, .count = 64};
  ReservedBlocks reserved = *worker.client().Reserve(worker.space(), worker.KeysOf(kRun));
  ASSERT_EQ(reserved.reserved(), kRun.count);
  for (size_t i = 0; i < kRun.count; ++i) worker.Fill(kRun.first + i, reserved.slot(i));
  EXPECT_EQ(reserved.Commit({.durable = true, .timeout = absl::Seconds(30)}), kRun.count);
  agent.Kill();
  ASSERT_TRUE(agent.Start().ok());
  ASSERT_TRUE(worker.AwaitConnected());
  EXPECT_EQ(worker.Get(kRun).size(), kRun.count);
}

TEST(BurstTest, WhereNothingIsPromisedADurableCommitIsToldAtOnceThatNothingIs) {
  ProcessCluster cluster;
  AgentProcess& agent =
      cluster.StartAgent("node-a", {{"disk_bytes", "256MiB"}, {"disk_write_moment", "eviction"}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  ReservedBlocks reserved = *worker.client().Reserve(worker.space(), worker.KeysOf({1, 2}));
  ASSERT_EQ(reserved.reserved(), 2);
  for (size_t i = 0; i < 2; ++i) worker.Fill(1 + i, reserved.slot(i));
  const absl::Time start = absl::Now();
  EXPECT_EQ(reserved.Commit({.durable = true, .timeout = absl::Seconds(30)}), 0);
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  EXPECT_EQ(worker.Get({1, 2}).size(), 2) << "published all the same";
}

}  // namespace
}  // namespace kvtier::testing
