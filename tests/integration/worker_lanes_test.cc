// A worker's own lanes beside a real agent: blocks of adopted tensors and of granted slots
// go out and come back layer by layer, and an agent that is killed meanwhile is never
// believed.
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
#include "core/space_codec.h"
#include "proto/session_wire.h"
#include "tests/client/tensor_memory.h"
#include "tests/testing/blocks.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_seed.h"
#include "tests/testing/test_worker.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier::testing {
namespace {

// Blocks of 64 KiB, a MiB of them at once.
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

  // The content of a block is the number of its key.
  std::shared_ptr<LaneJob> Offload(uint64_t first) {
    for (uint32_t i = 0; i < kRun; ++i) memory_.Compute(i, first + i);
    return *pool_->Offload({KeysFrom(first), SlotsFrom(0)});
  }
  std::shared_ptr<LaneJob> Onboard(uint64_t first) {
    return *pool_->Onboard({KeysFrom(first), SlotsFrom(kRun)}, {.order = PlanOrder::kLayerWise});
  }
  // How many blocks came; what the job believes has to be right.
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
  EmulatedDevice device_{&clock_, {}};
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

// A region's offsets are none of the arena's: what a device brought from there would be wrong
// bytes.
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
  worker.OnDevice([](EmulatedDevice& device) {
    device.Stall(Lane::kOnboard);
    device.Stall(Lane::kOffload);
  });
  const auto onboard = worker.Onboard(100);
  const auto offload = worker.Offload(200);
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return onboard->coming() && offload->coming(); }));
  agent_.Kill();
  worker.OnDevice([](EmulatedDevice& device) {
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

// The places are drawn by time, up to what both jobs take: between messages, inside a copy, behind
// the last. Nothing is waited for by the sleep; whatever it hits, the same must hold.
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

// Every session of this process with the agent is hung up, as if it were a lost one.
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
  worker_.OnDevice([](EmulatedDevice& device) { device.Stall(Lane::kOffload); });
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
  worker_.OnDevice([](EmulatedDevice& device) { device.Resume(Lane::kOffload); });
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->blocks(), 0U) << "its reservations went with their session";
  EXPECT_EQ(reserved->Commit(), had);
  EXPECT_EQ(other.Get({.first = 300, .count = had}).size(), had);  // Each byte of them.

  EXPECT_EQ(had, kHostSlots - kRun);
  EXPECT_EQ(late, kRun);
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return late_slots() == 0; }));
}

class GrantedPoolTest : public WorkerLanesTest {
 protected:
  GrantedPoolTest() : worker_(agent_.socket_dir(), OwnedLayout) {}
  GrantedSlots Take(uint32_t slots) {
    const SpaceHandle space = *worker_.client().RegisterSpace(worker_.memory().space());
    return *worker_.client().TakeSlots(space, slots);
  }
  absl::StatusOr<std::unique_ptr<WorkerPool>> Over(GrantedSlots slots) {
    return WorkerPool::OverGranted(&worker_.lanes(), std::move(slots), {},
                                   worker_.memory().space());
  }
  uint64_t UsedSlots() { return agent_.TierStatus(Tier::kGpu).used_bytes() / (64 << 10); }

  Worker worker_;
};

TEST_F(GrantedPoolTest, AGrantedSlotHasNoRoomForWhatASpaceEncodes) {
  SpaceSpec spec = worker_.memory().space();
  spec.codec = "int8";
  spec.dtype = "bfloat16";
  spec.layers = spec.kv_heads = 1;
  spec.head_dim = spec.tokens_per_block = 16;
  spec.layout = "layer,kv,token,head,dim";
  spec.block_bytes = SpaceCodec::Of(spec)->encoded_bytes();
  const auto pool = WorkerPool::OverGranted(&worker_.lanes(), Take(2), {}, spec);
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(pool.status().message().find("codec is \"int8\""), absl::string_view::npos);
}

TEST_F(GrantedPoolTest, GrantedSlotsAreOffloadedAndOnboarded) {
  auto pool = Over(Take(2));
  ASSERT_TRUE(pool.ok()) << pool.status();
  const GrantedSlots& granted = *(*pool)->granted();
  const std::vector<uint32_t> from = {granted.numbers()[1]};
  const std::vector<uint32_t> to = {granted.numbers()[0]};
  std::ranges::fill(granted.slot(from[0]), std::byte{7});
  const std::vector<EngineKey> keys = {TestEngineKey(1)};
  const auto offload = *(*pool)->Offload({keys, from});
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->blocks(), 1U) << offload->status();
  const auto onboard = *(*pool)->Onboard({keys, to}, {.order = PlanOrder::kLayerWise});
  ASSERT_TRUE(Ended(onboard));
  EXPECT_EQ(onboard->blocks(), 1U) << onboard->status();
  EXPECT_TRUE(
      std::ranges::all_of(granted.slot(to[0]), [](std::byte b) { return b == std::byte{7}; }));
  // The step of a copy is over with it: slots that are given up serve others.
  pool->reset();
  EXPECT_TRUE(Await(absl::Seconds(2), [&] { return UsedSlots() == 0; }));
}

// Steps of compute on the device and of the lanes' copies are one line of numbers.
TEST_F(GrantedPoolTest, ACopysEndEndsNoStepOfComputeThatBeganBeforeIt) {
  auto pool = Over(Take(2));
  ASSERT_TRUE(pool.ok()) << pool.status();
  std::vector<uint32_t> numbers((*pool)->granted()->numbers().begin(),
                                (*pool)->granted()->numbers().end());
  const std::vector<EngineKey> keys = {TestEngineKey(1), TestEngineKey(2)};
  const uint64_t step = worker_.client().BeginStep();
  ASSERT_GT(step, 0U);
  worker_.OnDevice([](EmulatedDevice& device) { device.Stall(Lane::kCompute); });
  ASSERT_EQ(worker_.lanes().EndStep(step), absl::OkStatus());
  const auto offload = *(*pool)->Offload({keys, numbers});
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->blocks(), 2U) << offload->status();
  pool->reset();  // The worker lets go of the slots.
  EXPECT_FALSE(Await(absl::Milliseconds(300), [&] { return UsedSlots() < 2; }))
      << "compute may still be reading them";
  worker_.OnDevice([](EmulatedDevice& device) { device.Resume(Lane::kCompute); });
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return UsedSlots() == 0; }));
  EXPECT_EQ(worker_.lanes().EndStep(step), absl::OkStatus()) << "it has ended";
  EXPECT_EQ(worker_.lanes().EndStep(0), absl::OkStatus()) << "no step";
}

TEST_F(GrantedPoolTest, SlotsThatWereNotGrantedAreNotTouched) {
  GrantedSlots others = Take(2);
  const auto pool = Over(Take(2));
  ASSERT_TRUE(pool.ok()) << pool.status();
  const std::vector<EngineKey> keys = {TestEngineKey(1)};
  const std::vector<uint32_t> slots = {others.numbers()[0]};
  const absl::Status refused = (*pool)->Onboard({keys, slots}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(GrantedPoolTest, AGrantThatIsOverIsNoMemory) {
  auto pool = Over(Take(2));
  ASSERT_TRUE(pool.ok()) << pool.status();
  const std::vector<uint32_t> slots = {(*pool)->granted()->numbers()[0]};
  GrantedSlots late = Take(1);
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return !late.valid(); }));
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_EQ(Over(std::move(late)).status().code(), absl::StatusCode::kFailedPrecondition);
  const std::vector<BlockCopy> inside = {
      {.from = slots[0], .to = (*pool)->granted()->numbers()[1]}};
  EXPECT_EQ((*pool)->CopyBlocks(inside).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Over(GrantedSlots()).status().code(), absl::StatusCode::kFailedPrecondition);
  // Its blocks are there, its slots may be another worker's by now.
  ASSERT_TRUE(Ended(worker_.Offload(100)));
  const std::vector<EngineKey> keys = {TestEngineKey(100)};
  const auto onboard = *(*pool)->Onboard({keys, slots});
  ASSERT_TRUE(Ended(onboard));
  EXPECT_EQ(onboard->status().code(), absl::StatusCode::kAborted);
  const std::vector<EngineKey> others = {TestEngineKey(900)};
  const auto offload = *(*pool)->Offload({others, slots});
  ASSERT_TRUE(Ended(offload));
  EXPECT_EQ(offload->status().code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace kvtier::testing
