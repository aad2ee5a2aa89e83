// Tests that a real agent with 100,000 small blocks on its disk serves them again within seconds of
// its start, after kill -9.
#include <gtest/gtest.h>

#include <cstdio>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

constexpr uint64_t kBlocks = 100'000;
constexpr size_t kRun = 1000;  // Number of blocks of one prefix, put in one call.
// Maximum number of blocks that wait for the disk before more are put: well below what host memory
// holds, so that none is evicted before it was written.
constexpr uint64_t kMaxWaiting = 6000;
constexpr int kSamples = 50;
// Ten times the promised time, for machines that do other things as well; `bench disk` measures.
constexpr absl::Duration kReadyWithin = absl::Seconds(30);

TEST(WarmRestartTest, AHundredThousandBlocksAreWarmAgainSoonAfterKill9) {
  SimRandom random(TestSeed());
  ProcessCluster cluster;
  // A record of a 4 KiB block takes 8 KiB: 800 MiB in all.
  AgentProcess& agent = cluster.StartAgent(
      "node-a", {{"host_bytes", "64MiB"}, {"disk_bytes", "1GiB"}, {"segment_bytes", "32MiB"}});
  TestWorker worker({.socket_dir = agent.socket_dir(), .block_bytes = 4096});

  const absl::Time start = absl::Now();
  for (uint64_t first = 0; first < kBlocks; first += kRun) {
    ASSERT_EQ(worker.Put({first, kRun}), kRun);
    ASSERT_TRUE(
        Await(absl::Seconds(60), [&] { return agent.Status().offload_queue() < kMaxWaiting; }));
  }
  ASSERT_TRUE(agent.AwaitOffloaded());
  std::printf("put to disk in %s\n", absl::FormatDuration(absl::Now() - start).c_str());
  ASSERT_EQ(agent.TierStatus(Tier::kDisk).blocks(), kBlocks);

  agent.Kill();
  const absl::StatusOr<absl::Duration> ready = agent.Start();
  ASSERT_EQ(ready.status(), absl::OkStatus());
  std::printf("warm restart at %d blocks: %.3f s from exec to ready\n", static_cast<int>(kBlocks),
              absl::ToDoubleSeconds(*ready));
  RecordProperty("ready_ms", static_cast<int>(absl::ToInt64Milliseconds(*ready)));
  EXPECT_LE(*ready, Patience(kReadyWithin));
  EXPECT_EQ(agent.TierStatus(Tier::kDisk).blocks(), kBlocks);

  ASSERT_TRUE(worker.AwaitConnected());
  for (int i = 0; i < kSamples; ++i) {
    const Blocks run = {.first = random.Below(kBlocks / kRun) * kRun, .count = 20};
    EXPECT_EQ(worker.Get(run).size(), run.count);
  }
  EXPECT_EQ(agent.TierStatus(Tier::kDisk).verify_failures(), 0);
}

}  // namespace
}  // namespace kvtier::testing
