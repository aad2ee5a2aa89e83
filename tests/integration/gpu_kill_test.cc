// Two processes share a GPU pool by descriptor, and either is killed ahead of every
// station of the other's life: nothing leaks, no byte is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::SizeIs;

constexpr size_t kStations = 16;
constexpr size_t kSlots = 16;
constexpr uint64_t kSlotBytes = uint64_t{64} << 10;

class GpuKillTest : public ::testing::Test {
 protected:
  // Runs to its station and stops there.
  std::unique_ptr<ChildProcess> StartWorker(size_t station) {
    const std::string log = absl::StrCat(cluster_.run_dir(), "/worker-", station, ".log");
    auto worker = ChildProcess::Start(
        {ProgramPath("kvtier-stepping-worker"), agent_.socket_dir(), absl::StrCat(station)}, log);
    EXPECT_EQ(worker.status(), absl::OkStatus());
    const std::string there = absl::StrCat("ahead of station ", station, " of ", kStations);
    EXPECT_TRUE(Await(absl::Seconds(10), [&] {
      return FileTail(log, 200).find(there) != std::string::npos;
    })) << there;
    return *std::move(worker);
  }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / kSlotBytes; }
  // All slots serve again, and what is cached is what it was.
  void ExpectWhole(size_t station) {
    EXPECT_TRUE(Await(absl::Seconds(2), [&] {
      return agent_.Status().gpus(0).earlier_workers() == 0 &&
             UsedSlots() == agent_.TierStatus(Tier::kGpu).blocks();
    })) << station;
    const OnboardOptions to_gpu = {.target = OnboardTarget::kGpu};
    const auto found = worker_.Get({.first = 100, .count = 4}, to_gpu);  // Proves every byte.
    EXPECT_TRUE(found.empty() || found.size() == 4) << station;
    EXPECT_THAT(worker_.Get({.first = 500, .count = 4}), SizeIs(4)) << station;
    agent_.Evict(Tier::kGpu);
    EXPECT_EQ(UsedSlots(), 0) << station;
    const Blocks all = {.first = 1000 * (station + 1), .count = kSlots};
    EXPECT_EQ(worker_.Put(all, {.target = OnboardTarget::kGpu}), kSlots) << station;
    EXPECT_THAT(worker_.Get(all, to_gpu), SizeIs(kSlots)) << station;
    agent_.Evict(Tier::kGpu);
    agent_.Evict(Tier::kHost);
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
};

TEST_F(GpuKillTest, AWorkerKilledAnywhereLeavesAWholePool) {
  for (size_t station = 0; station < kStations; ++station) {
    worker_.Put({.first = 500, .count = 4});
    const auto doomed = StartWorker(station);
    doomed->Kill();
    ExpectWhole(station);
  }
}

TEST_F(GpuKillTest, AnAgentKilledAnywhereLeavesAWorkerThatBelievesNothingWrong) {
  for (size_t station = 0; station < kStations; ++station) {
    const auto worker = StartWorker(station);
    agent_.Kill();
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
    worker->Signal(SIGCONT);
    EXPECT_EQ(worker->Wait(Patience(absl::Seconds(30))), 0) << station;
    ASSERT_TRUE(worker_.AwaitConnected());
    worker_.Put({.first = 500, .count = 4});
    ExpectWhole(station);
  }
}

}  // namespace
}  // namespace kvtier::testing
