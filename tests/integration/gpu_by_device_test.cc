// Workers that reach the GPU pool through a device of their own, as they must where it is
// memory of a GPU: by offsets and numbers, with no byte that the host touches. On the
// emulated device, and on a GPU where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "client/lanes/worker_pool.h"
#include "client/paged_kv.h"
#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr uint64_t kHandle = uint64_t{2} << 20;
constexpr uint64_t kBlock = uint64_t{64} << 10;
constexpr absl::Duration kLong = absl::Seconds(20);

const OnboardOptions kToGpu = {.target = OnboardTarget::kGpu};
const ReserveOptions kThroughGpu = {.target = OnboardTarget::kGpu};

// What of the pool the device of this worker is handed, and copies of single blocks there.
class PoolOnDevice {
 public:
  PoolOnDevice(WorkerLanes* lanes, const GpuMemory& pool) : lanes_(lanes) {
    std::vector<int> handles;
    for (const FileDescriptor& handle : pool.handles) handles.push_back(handle.get());
    lanes_->On([&] {
      auto region = lanes_->device()->ImportRegion(
          {.handle_bytes = pool.handle_bytes, .max_handles = pool.max_handles}, handles);
      EXPECT_EQ(region.status(), absl::OkStatus());
      if (region.ok()) region_ = *std::move(region);
      EXPECT_EQ(lanes_->device()->Pin(block_), absl::OkStatus());
      return true;
    });
  }
  ~PoolOnDevice() {
    lanes_->On([this] {
      EXPECT_EQ(lanes_->device()->Unpin(block_), absl::OkStatus());
      region_.reset();
      return true;
    });
  }
  PoolOnDevice(const PoolOnDevice&) = delete;
  PoolOnDevice& operator=(const PoolOnDevice&) = delete;

  void Write(uint64_t offset, const TestWorker& contents, uint64_t number) {
    contents.Fill(number, block_);
    Copy(CopyDirection::kHostToDevice, offset);
  }
  bool Holds(uint64_t offset, const TestWorker& contents, uint64_t number) {
    std::vector<std::byte> expected(kBlock);
    contents.Fill(number, expected);
    std::ranges::fill(block_, std::byte{0xEE});
    Copy(CopyDirection::kDeviceToHost, offset);
    return std::ranges::equal(block_, expected);
  }

 private:
  void Copy(CopyDirection direction, uint64_t offset) {
    lanes_->On([&] {
      const CopySegment segment = {.device_offset = offset, .host = block_.data(), .bytes = kBlock};
      const auto ticket = lanes_->device()->Submit(
          {.direction = direction, .region = region_.get(), .segments = {&segment, 1}});
      EXPECT_EQ(ticket.status(), absl::OkStatus());
      EXPECT_EQ(lanes_->device()->Drain(kLong), absl::OkStatus());
      std::array<Completion, 4> ended;
      while (lanes_->device()->Poll(ended) > 0) {
      }
      return true;
    });
  }

  WorkerLanes* const lanes_;
  std::vector<std::byte> block_ = std::vector<std::byte>(kBlock);
  std::unique_ptr<DeviceRegion> region_;
};

class GpuByDeviceTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto device = OpenDevice(GetParam(), &clock_);
    if (!device.ok()) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << device.status();
    device_ = *std::move(device);
    agent_ = &cluster_.StartAgent("node-a", {{"gpu_bytes", "2MiB"},
                                             {"gpu_max_bytes", "8MiB"},
                                             {"gpu_block_bytes", "64KiB"},
                                             {"device", GetParam()}});
    plain_ = std::make_unique<TestWorker>(TestWorkerOptions{.socket_dir = agent_->socket_dir()});
    client_ = *Client::Open({.socket_dir = agent_->socket_dir(), .gpu_by_device = true});
    space_ = *client_->RegisterSpace(plain_->spec());
    lanes_ = *WorkerLanes::Open(client_.get(), device_.get());
  }

  // Blocks of the device's own making, through the pool; returns how many.
  size_t Put(Blocks blocks) {
    ReservedBlocks reserved = *client_->Reserve(space_, plain_->KeysOf(blocks), kThroughGpu);
    PoolOnDevice pool(lanes_.get(), *client_->gpu_memory());
    for (size_t i = 0; i < reserved.size(); ++i) {
      if (reserved.state(i) != ReservedBlocks::State::kReserved) continue;
      EXPECT_TRUE(reserved.slot(i).empty());
      pool.Write(reserved.offset(i), *plain_, blocks.first + i);
    }
    return reserved.Commit();
  }
  absl::StatusOr<std::unique_ptr<WorkerPool>> Over(GrantedSlots slots) {
    return WorkerPool::OverGranted(lanes_.get(), std::move(slots), {}, plain_->spec());
  }

  MonotonicClock clock_;
  std::unique_ptr<Device> device_;
  ProcessCluster cluster_;
  AgentProcess* agent_ = nullptr;
  std::unique_ptr<TestWorker> plain_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
  std::unique_ptr<WorkerLanes> lanes_;
};

TEST_P(GpuByDeviceTest, BlocksAreOffsetsInThePool) {
  const Blocks blocks = {.first = 100, .count = 8};
  ASSERT_EQ(Put(blocks), 8);
  // Once more, from what the agent copied out of the pool.
  EXPECT_THAT(plain_->Get(blocks), SizeIs(8));

  const OnboardedBlocks held = *client_->Onboard(space_, plain_->KeysOf(blocks), kToGpu);
  ASSERT_EQ(held.size(), 8);
  PoolOnDevice pool(lanes_.get(), *client_->gpu_memory());
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(held.bytes(i).empty());
    EXPECT_EQ(held.source(i), BlockSource::kGpu);
    EXPECT_TRUE(pool.Holds(held.offset(i), *plain_, blocks.first + i)) << i;
  }
  EXPECT_TRUE(held.valid());
}

TEST_P(GpuByDeviceTest, WhatIsInHostMemoryIsOnboardedToWhereTheDeviceReadsIt) {
  const Blocks blocks = {.first = 100, .count = 8};
  ASSERT_EQ(plain_->Put(blocks), 8);
  const OnboardedBlocks held = *client_->Onboard(space_, plain_->KeysOf(blocks), kToGpu);
  ASSERT_EQ(held.size(), 8);
  PoolOnDevice pool(lanes_.get(), *client_->gpu_memory());
  for (size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(pool.Holds(held.offset(i), *plain_, blocks.first + i)) << i;
  }
  EXPECT_TRUE(held.valid());
}

TEST_P(GpuByDeviceTest, GrantedSlotsAreOffloadedAndOnboarded) {
  auto over = Over(*client_->TakeSlots(space_, 2));
  ASSERT_EQ(over.status(), absl::OkStatus());
  const GrantedSlots& granted = *(*over)->granted();
  ASSERT_EQ(granted.size(), 2);
  EXPECT_TRUE(granted.memory().empty());
  const std::vector<uint32_t> from = {granted.numbers()[1]};
  const std::vector<uint32_t> to = {granted.numbers()[0]};
  const std::vector<EngineKey> keys = plain_->KeysOf({.first = 7, .count = 1});
  PoolOnDevice pool(lanes_.get(), *client_->gpu_memory());
  pool.Write(from[0] * granted.slot_bytes(), *plain_, 7);

  const auto offload = *(*over)->Offload({keys, from});
  ASSERT_TRUE(offload->Wait(Patience(kLong)));
  EXPECT_EQ(offload->blocks(), 1) << offload->status();
  const auto onboard = *(*over)->Onboard({keys, to}, {.order = PlanOrder::kLayerWise});
  ASSERT_TRUE(onboard->Wait(Patience(kLong)));
  EXPECT_EQ(onboard->blocks(), 1) << onboard->status();
  EXPECT_TRUE(pool.Holds(to[0] * granted.slot_bytes(), *plain_, 7));
  EXPECT_THAT(plain_->Get({.first = 7, .count = 1}), SizeIs(1));

  over->reset();
  EXPECT_TRUE(Await(absl::Seconds(10),
                    [this] { return agent_->TierStatus(Tier::kGpu).used_bytes() == 0; }));
}

TEST_P(GpuByDeviceTest, SlotsThatCameWithAGrowthAreReached) {
  // All of the first handle is another's.
  const GrantedSlots first = *client_->TakeSlots(space_, kHandle / kBlock);
  ASSERT_EQ(first.size(), kHandle / kBlock);
  const Blocks blocks = {.first = 100, .count = 8};
  EXPECT_EQ(Put(blocks), 0);
  ASSERT_EQ(agent_->ResizeGpu(2 * kHandle)->bytes(), 2 * kHandle);
  EXPECT_EQ(Put(blocks), 8);
  EXPECT_EQ(client_->gpu_memory()->handles.size(), 2);
  const OnboardedBlocks held = *client_->Onboard(space_, plain_->KeysOf(blocks), kToGpu);
  ASSERT_EQ(held.size(), 8);
  EXPECT_GE(held.offset(0), kHandle);
}

TEST_P(GpuByDeviceTest, SequencesOfTheHostsAreNotKeptThere) {
  const auto paged = PagedKv::Create(*client_->TakeSlots(space_, 2), {});
  EXPECT_EQ(paged.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(paged.status().message()), HasSubstr("gpu_by_device"));
}

TEST_P(GpuByDeviceTest, TheDevicesUseOutlivesTheSession) {
  std::shared_ptr<const void> use;
  {
    const GrantedSlots granted = *client_->TakeSlots(space_, 2);
    EXPECT_TRUE(granted.In(*client_->gpu_memory()));
    use = granted.keep_mapped();
  }
  EXPECT_NE(use, nullptr);
  EXPECT_FALSE(GrantedSlots().In(*client_->gpu_memory()));
  const auto other = *Client::Open({.socket_dir = agent_->socket_dir(), .gpu_by_device = true});
  const GrantedSlots theirs = *other->TakeSlots(*other->RegisterSpace(plain_->spec()), 1);
  ASSERT_EQ(theirs.size(), 1);
  EXPECT_FALSE(theirs.In(*client_->gpu_memory()));
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuByDeviceTest, ::testing::Values("emulated", "cuda:0"),
                         [](const auto& info) {
                           return std::string(info.param) == "emulated" ? "Emulated" : "Cuda";
                         });

// Memory of a GPU is nothing to who reaches by the host.
TEST(GpuByHostTest, APoolOfAGpuIsAMiss) {
  MonotonicClock clock;
  const auto device = OpenDevice("cuda:0", &clock);
  if (!device.ok()) GTEST_SKIP() << "SKIPPED, NOT PROVEN: " << device.status();
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent(
      "node-a", {{"gpu_bytes", "2MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "cuda:0"}});
  TestWorker worker({.socket_dir = agent.socket_dir()});
  const Blocks blocks = {.first = 100, .count = 8};
  EXPECT_EQ(worker.Put(blocks, kThroughGpu), 0);
  EXPECT_EQ(worker.Put(blocks), 8);
  EXPECT_THAT(worker.Get(blocks, kToGpu), SizeIs(0));
  EXPECT_THAT(worker.Get(blocks), AllOf(SizeIs(8), Each(BlockSource::kHost)));
  EXPECT_EQ(worker.client().TakeSlots(worker.space(), 2)->size(), 0);
}

}  // namespace
}  // namespace kvtier::testing
