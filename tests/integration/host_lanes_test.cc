// Tests lanes of host memory beside a real agent, which is stopped, killed and started again:
// blocks come back whole or not at all, and nobody waits.
#include "client/host_lanes/host_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/client/tensor_memory.h"
#include "tests/testing/blocks.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"

namespace kvtier::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// This size makes blocks of 64 KiB.
constexpr LayoutSize kSize = {.layers = 4, .slots = 32, .run_bytes = 8 << 10, .start = 0};
constexpr uint32_t kRun = 16;

std::vector<EngineKey> KeysFrom(uint64_t first, size_t count) {
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(TestEngineKey(first + i));
  return keys;
}

// One worker with tensors of its own: it computes in slots 0..15 and onboards to 16..31.
class Worker {
 public:
  Worker(const std::string& socket_dir, LayoutMaker layout)
      : client_(*Client::Open(
            {.socket_dir = socket_dir, .default_timeout = Patience(absl::Seconds(2))})),
        memory_(layout, kSize),
        space_(*client_->RegisterSpace(memory_.space())),
        lanes_(*HostLanes::Open(client_.get(), space_, memory_.tensors())) {}

  Client& client() { return *client_; }
  SpaceHandle space() const { return space_; }
  HostLanes& lanes() { return *lanes_; }

  // Begins an offload of blocks whose content is the number of their key.
  std::shared_ptr<HostJob> Offload(uint64_t first) {
    for (uint32_t i = 0; i < kRun; ++i) memory_.Compute(i, first + i);
    return *lanes_->Offload(KeysFrom(first, kRun), {}, Slots(0, kRun));
  }
  std::shared_ptr<HostJob> Onboard(uint64_t first) {
    return *lanes_->Onboard(KeysFrom(first, kRun), Slots(kRun, kRun));
  }
  // Returns the results of an onboard. The job must end, and each block that came must be right.
  std::vector<bool> Proven(uint64_t first, const HostJob& onboard) {
    EXPECT_TRUE(onboard.Wait(Patience(kLong)));
    const std::vector<bool> results = onboard.results();
    for (uint32_t i = 0; i < kRun; ++i) {
      EXPECT_TRUE(!results[i] || memory_.Holds(kRun + i, first + i)) << i;
    }
    return results;
  }
  std::vector<bool> Get(uint64_t first) { return Proven(first, *Onboard(first)); }
  std::vector<bool> Put(uint64_t first) {
    const auto job = Offload(first);
    EXPECT_TRUE(job->Wait(Patience(kLong)));
    return job->results();
  }
  std::vector<bool> PutOne(uint64_t number, const std::optional<EngineKey>& parent) {
    memory_.Compute(0, number);
    const auto job = *lanes_->Offload(KeysFrom(number, 1), parent, Slots(0, 1));
    EXPECT_TRUE(job->Wait(Patience(kLong)));
    return job->results();
  }
  bool AwaitConnected() {
    return Await(absl::Seconds(10), [this] { return client_->connected(); });
  }

 private:
  std::unique_ptr<Client> client_;
  TensorMemory memory_;
  const SpaceHandle space_;
  std::unique_ptr<HostLanes> lanes_;
};

class HostLanesNodeTest : public ::testing::Test {
 protected:
  ProcessCluster cluster_;
  AgentProcess& agent_ =
      cluster_.StartAgent("node-a", {{"host_bytes", "16MiB"}, {"slab_bytes", "1MiB"}});
};

TEST_F(HostLanesNodeTest, OneWorkersBlocksComeToAnotherWithOtherTensors) {
  Worker first(agent_.socket_dir(), PerLayerLayout);
  Worker second(agent_.socket_dir(), CrossLayerLayout);
  EXPECT_THAT(first.Put(100), Each(true));
  EXPECT_THAT(second.Get(100), Each(true));
  EXPECT_TRUE(agent_.AwaitLeases(0));
}

TEST_F(HostLanesNodeTest, ARunLongerThanHostMemoryComesFromTheDiskInTurns) {
  AgentProcess& agent =
      cluster_.StartAgent("small", {{"host_bytes", "512KiB"}, {"slab_bytes", "256KiB"}});
  ASSERT_LE(agent.TierStatus(Tier::kHost).capacity_bytes(), kRun / 2 * (64 << 10));
  Worker worker(agent.socket_dir(), PerLayerLayout);
  std::optional<EngineKey> parent;
  for (uint32_t i = 0; i < kRun; ++i) {
    ASSERT_THAT(worker.PutOne(100 + i, parent), ElementsAre(true));
    ASSERT_TRUE(agent.AwaitOffloaded());
    parent = TestEngineKey(100 + i);
  }
  EXPECT_THAT(worker.Get(100), Each(true));
  EXPECT_TRUE(agent.AwaitLeases(0));
}

TEST_F(HostLanesNodeTest, AStoppedAgentDelaysNoCallAndEveryJobEnds) {
  Worker worker(agent_.socket_dir(), PerLayerLayout);
  EXPECT_THAT(worker.Put(100), Each(true));
  agent_.Hang();
  const auto in = worker.Onboard(100);
  const auto out = worker.Offload(200);
  EXPECT_FALSE(in->done()) << "the call did not wait for the agent";
  EXPECT_THAT(worker.Proven(100, *in), Each(false));
  EXPECT_TRUE(out->Wait(Patience(kLong)));
  EXPECT_THAT(out->results(), Each(false));
  EXPECT_TRUE(*worker.lanes().AwaitCopied(Slots(0, kRun), absl::ZeroDuration()));
  agent_.Continue();
  EXPECT_TRUE(Await(absl::Seconds(20), [&] {
    const std::vector<bool> got = worker.Get(100);
    return got == std::vector<bool>(kRun, true);
  })) << "the client's breaker closes again";
}

TEST_F(HostLanesNodeTest, AKilledAgentEndsTheJobsAndTheNextOneServesTheSameLanes) {
  Worker worker(agent_.socket_dir(), TwinTensorsLayout);
  EXPECT_THAT(worker.Put(100), Each(true));
  std::vector<std::shared_ptr<HostJob>> jobs;
  for (uint64_t i = 0; i < 8; ++i) {
    jobs.push_back(worker.Onboard(100));
    jobs.push_back(*worker.lanes().Offload(KeysFrom(1000 + i * kRun, kRun), {}, Slots(0, kRun)));
  }
  agent_.Kill();
  for (const auto& job : jobs) EXPECT_TRUE(job->Wait(Patience(kLong)));
  ASSERT_TRUE(agent_.Start().ok());
  ASSERT_TRUE(worker.AwaitConnected());
  EXPECT_THAT(worker.Put(300), Each(true));
  EXPECT_THAT(worker.Get(300), Each(true));
}

TEST_F(HostLanesNodeTest, AChangedByteFailsItsBlockAloneAndTheBlockCanBePutAgain) {
  Worker worker(agent_.socket_dir(), PerLayerLayout);
  EXPECT_THAT(worker.Put(100), Each(true));
  {
    const auto hit = worker.client().Onboard(worker.space(), KeysFrom(100, kRun));
    ASSERT_EQ(hit->size(), kRun);
    auto bytes = *worker.client().host_memory().write->Write(hit->offset(5), 64 << 10);
    bytes[12345] ^= std::byte{1};
  }
  const auto job = worker.Onboard(100);
  std::vector<bool> expected(kRun, true);
  expected[5] = false;
  EXPECT_EQ(worker.Proven(100, *job), expected);
  EXPECT_EQ(job->status().code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Await(absl::Seconds(20), [&] {
    worker.Put(100);
    return worker.Get(100) == std::vector<bool>(kRun, true);
  })) << "the agent drops the block";
}

TEST_F(HostLanesNodeTest, InAFullArenaNothingIsStoredAndTheSlotsAreFree) {
  Worker worker(agent_.socket_dir(), PerLayerLayout);
  // 256 blocks fill the arena, and leases keep them there.
  std::vector<OnboardedBlocks> held;
  for (uint64_t first = 1000; first < 1000 + 256; first += kRun) {
    worker.Put(first);
    held.push_back(*worker.client().Onboard(worker.space(), KeysFrom(first, kRun)));
  }
  const auto job = worker.Offload(100);
  EXPECT_TRUE(job->Wait(Patience(kLong)));
  EXPECT_EQ(job->status(), absl::OkStatus());
  EXPECT_THAT(job->results(), Each(false));
  EXPECT_TRUE(job->copied());
  held.clear();
  EXPECT_TRUE(agent_.AwaitLeases(0));
  EXPECT_THAT(worker.Put(100), Each(true));
}

}  // namespace
}  // namespace kvtier::testing
