// Tests a worker's own lanes beside a real agent: blocks of adopted tensors go out and come back
// layer by layer, and an agent that is killed meanwhile is never believed.
#include "client/lanes/worker_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lanes/worker_pool.h"
#include "proto/session_wire.h"
#include "tests/client/tensor_memory.h"
#include "tests/testing/blocks.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

// This size makes blocks of 64 KiB, of which a MiB is copied at once.
constexpr LayoutSize kSize = {.layers = 4, .slots = 32, .run_bytes = 8 << 10, .start = 0};
constexpr size_t kRun = 16;

std::vector<EngineKey> KeysFrom(uint64_t first) {
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i < kRun; ++i) keys.push_back(TestEngineKey(first + i));
  return keys;
}
std::vector<uint32_t> SlotsFrom(uint32_t first) {
  std::vector<uint32_t> slots(kRun);
  std::iota(slots.begin(), slots.end(), first);
  return slots;
}

// One worker with tensors of its own: it computes in slots 0..15 and onboards to 16..31.
class Worker {
 public:
  Worker(const std::string& socket_dir, LayoutMaker layout)
      : client_(*Client::Open({.socket_dir = socket_dir})),
        lanes_(*WorkerLanes::Open(client_.get(), &device_)),
        memory_(layout, kSize),
        pool_(*WorkerPool::Register(lanes_.get(), memory_.tensors(), memory_.space())) {}

  Client& client() { return *client_; }
  WorkerLanes& lanes() { return *lanes_; }
  TensorMemory& memory() { return memory_; }

  // Begins an offload of blocks whose content is the number of their key.
  std::shared_ptr<LaneJob> Offload(uint64_t first) {
    for (uint32_t i = 0; i < kRun; ++i) memory_.Compute(i, first + i);
    return *pool_->Offload({KeysFrom(first), SlotsFrom(0)});
  }
  std::shared_ptr<LaneJob> Onboard(uint64_t first) {
    return *pool_->Onboard({KeysFrom(first), SlotsFrom(kRun)}, {.order = PlanOrder::kLayerWise});
  }
  // Returns how many blocks came; the job's results must be right.
  size_t Proven(uint64_t first, const LaneJob& onboard) {
    if (!onboard.status().ok()) return 0;
    for (uint32_t i = 0; i < onboard.blocks(); ++i) {
      EXPECT_TRUE(memory_.Holds(kRun + i, first + i)) << i;
    }
    return onboard.blocks();
  }
  template <typename Fn>
  void OnDevice(Fn fn) {
    lanes_->On([this, &fn] {
      fn(device_);
      return true;
    });
  }
  bool AwaitConnected() {
    return Await(absl::Seconds(10), [this] { return client_->connected(); });
  }

 private:
  MonotonicClock clock_;
  std::unique_ptr<Client> client_;
  FaultyDevice device_{&clock_, {}};
  std::unique_ptr<WorkerLanes> lanes_;
  TensorMemory memory_;
  std::unique_ptr<WorkerPool> pool_;
};

bool Ended(const std::shared_ptr<LaneJob>& job) { return job->Wait(Patience(absl::Seconds(20))); }

class WorkerLanesTest : public ::testing::Test {
 protected:
  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent(
      "node-a", {{"gpu_bytes", "2MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}});
};

TEST_F(WorkerLanesTest, OneWorkersBlocksComeToAnotherWithOtherTensors) {
  Worker first(agent_.socket_dir(), PerLayerLayout);
  Worker second(agent_.socket_dir(), CrossLayerLayout);
  const auto offload = first.Offload(100);
  ASSERT_TRUE(Ended(offload));
  ASSERT_EQ(offload->status(), absl::OkStatus());
  EXPECT_EQ(offload->blocks(), kRun);
  const auto onboard = second.Onboard(100);
  ASSERT_TRUE(Ended(onboard));
  EXPECT_EQ(second.Proven(100, *onboard), kRun) << onboard->status();
  EXPECT_EQ(onboard->layers_ready(), kSize.layers);
  EXPECT_TRUE(agent_.AwaitLeases(0));
}

// Offsets in a staging region are not offsets in the arena: a device that used them there would
// copy wrong bytes.
TEST_F(WorkerLanesTest, AStagedNodeIsRefusedByName) {
  AgentProcess& staged = cluster_.StartAgent(
      "node-s", {{"worker_memory", "staged"}, {"slab_bytes", "1MiB"}, {"staging_bytes", "1MiB"}});
  TestWorker putter({.socket_dir = staged.socket_dir()});
  ASSERT_EQ(putter.Put({.first = 1, .count = 1}), 1);
  Worker worker(staged.socket_dir(), PerLayerLayout);
  ASSERT_TRUE(worker.AwaitConnected());
  const auto offload = worker.Offload(100);
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(offload->status().message()),
              ::testing::HasSubstr("--worker_memory=staged"));
  EXPECT_EQ(offload->blocks(), 0U);
}

TEST_F(WorkerLanesTest, AnAgentKilledDuringTheCopiesIsNotBelieved) {
  Worker worker(agent_.socket_dir(), PairedLayout);
  ASSERT_TRUE(Ended(worker.Offload(100)));
  worker.OnDevice([](FaultyDevice& device) {
    device.Stall(Lane::kOnboard);
    device.Stall(Lane::kOffload);
  });
  const auto onboard = worker.Onboard(100);
  const auto offload = worker.Offload(200);
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return onboard->coming() && offload->coming(); }));
  agent_.Kill();
  worker.OnDevice([](FaultyDevice& device) {
    device.Resume(Lane::kOnboard);
    device.Resume(Lane::kOffload);
  });
  ASSERT_TRUE(Ended(onboard));
  EXPECT_EQ(onboard->status().code(), absl::StatusCode::kAborted);
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->blocks(), 0U);

  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker.AwaitConnected());
  const auto again = worker.Offload(300);
  ASSERT_TRUE(Ended(again));
  EXPECT_EQ(again->blocks(), kRun) << again->status();
  const auto back = worker.Onboard(300);
  ASSERT_TRUE(Ended(back));
  EXPECT_EQ(worker.Proven(300, *back), kRun) << back->status();
}

// Kills the agent at a random moment of both jobs: between messages, inside a copy, or after the
// last one. The sleep waits for no event; the same must hold wherever it ends.
TEST_F(WorkerLanesTest, WhereverAnAgentIsKilledWhatIsBelievedIsRight) {
  std::mt19937_64 random(TestSeed());
  Worker worker(agent_.socket_dir(), TwinTensorsLayout);
  size_t proven = 0;
  for (uint64_t round = 1; round <= 6; ++round) {
    const uint64_t first = 1000 * round;
    ASSERT_TRUE(worker.AwaitConnected());
    const auto offload = worker.Offload(first);
    if (round % 2 == 0) {
      ASSERT_TRUE(Ended(offload));
    }
    const auto onboard = worker.Onboard(first);
    absl::SleepFor(absl::Microseconds(random() % 4000));
    agent_.Kill();
    ASSERT_TRUE(Ended(offload));
    ASSERT_TRUE(Ended(onboard));
    proven += worker.Proven(first, *onboard);
    ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  }
  ASSERT_TRUE(worker.AwaitConnected());
  ASSERT_TRUE(Ended(worker.Offload(100)));
  const auto onboard = worker.Onboard(100);
  ASSERT_TRUE(Ended(onboard));
  EXPECT_EQ(worker.Proven(100, *onboard), kRun) << onboard->status() << ", before: " << proven;
  EXPECT_TRUE(agent_.AwaitLeases(0));
}

// Closes every connection of this process to the agent's descriptor socket, as if it broke; returns
// how many there were.
size_t CutSessions(const std::string& socket_dir) {
  const std::string path = absl::StrCat(socket_dir, "/", wire::kDescriptorSocketName);
  size_t cut = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_un peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sun_family != AF_UNIX || path != peer.sun_path) continue;
    cut += shutdown(fd, SHUT_RDWR) == 0 ? 1 : 0;
  }
  return cut;
}

class CutSessionTest : public ::testing::Test {
 protected:
  static constexpr size_t kHostSlots = 64;
  uint64_t late_slots() { return agent_.TierStatus(Tier::kHost).late_bytes() / (64 << 10); }

  ProcessCluster cluster_;
  // Nothing is promised to the disk, so that one put may have every slot.
  AgentProcess& agent_ =
      cluster_.StartAgent("node-a", {{"host_bytes", "4MiB"}, {"disk_write_moment", "eviction"}});
  Worker worker_{agent_.socket_dir(), PairedLayout};
};

TEST_F(CutSessionTest, ACopyThatGoesOnWritesIntoNobodyElsesBlocks) {
  worker_.OnDevice([](FaultyDevice& device) { device.Stall(Lane::kOffload); });
  const auto offload = worker_.Offload(100);
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return offload->coming().has_value(); }));
  ASSERT_EQ(CutSessions(agent_.socket_dir()), 1U);
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return worker_.client().Stats().sessions == 2; }));

  TestWorker other({.socket_dir = agent_.socket_dir()});
  absl::StatusOr<ReservedBlocks> reserved =
      other.client().Reserve(other.space(), other.KeysOf({.first = 300, .count = kHostSlots}));
  ASSERT_TRUE(reserved.ok()) << reserved.status();
  const size_t had = reserved->reserved();
  for (size_t i = 0; i < had; ++i) other.Fill(300 + i, reserved->slot(i));
  const uint64_t late = late_slots();
  worker_.OnDevice([](FaultyDevice& device) { device.Resume(Lane::kOffload); });
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->blocks(), 0U) << "its reservations went with their session";
  EXPECT_EQ(reserved->Commit(), had);
  EXPECT_EQ(other.Get({.first = 300, .count = had}).size(), had);  // Get() proves each byte.

  EXPECT_EQ(had, kHostSlots - kRun);
  EXPECT_EQ(late, kRun);
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return late_slots() == 0; }));
}

}  // namespace
}  // namespace kvtier::testing
