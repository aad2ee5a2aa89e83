// Tests a worker that reaches the GPU pool through a device of its own, as it must where the pool
// is memory of a GPU: by offsets, with no byte that the host touches. On the emulated device, and
// on a GPU where there is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tier_gpu/device/open_device.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::SizeIs;

constexpr uint64_t kHandle = uint64_t{2} << 20;
constexpr uint64_t kBlock = uint64_t{64} << 10;

const OnboardOptions kToGpu = {.target = OnboardTarget::kGpu};
const ReserveOptions kThroughGpu = {.target = OnboardTarget::kGpu};

// PoolOnDevice maps the GPU pool on a device of the worker's own, and copies single blocks there.
class PoolOnDevice {
 public:
  PoolOnDevice(Device* device, const GpuMemory& pool) : device_(device) {
    std::vector<int> handles;
    for (const FileDescriptor& handle : pool.handles) handles.push_back(handle.get());
    auto region = device_->ImportRegion(
        {.handle_bytes = pool.handle_bytes, .max_handles = pool.max_handles}, handles, pool.device);
    EXPECT_EQ(region.status(), absl::OkStatus());
    if (region.ok()) region_ = *std::move(region);
    EXPECT_EQ(device_->Pin(block_), absl::OkStatus());
  }
  ~PoolOnDevice() { EXPECT_EQ(device_->Unpin(block_), absl::OkStatus()); }
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
    const CopySegment segment = {.device_offset = offset, .host = block_.data(), .bytes = kBlock};
    const auto ticket = device_->Submit(
        {.direction = direction, .region = region_.get(), .segments = {&segment, 1}});
    EXPECT_EQ(ticket.status(), absl::OkStatus());
    EXPECT_EQ(device_->Drain(absl::Seconds(20)), absl::OkStatus());
    std::array<Completion, 4> ended;
    while (device_->Poll(ended) > 0) {
    }
  }

  Device* const device_;
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
  }

  // Puts blocks that the device writes into the pool; returns how many were committed.
  size_t Put(Blocks blocks) {
    ReservedBlocks reserved = *client_->Reserve(space_, plain_->KeysOf(blocks), kThroughGpu);
    PoolOnDevice pool(device_.get(), *client_->gpu_memory());
    for (size_t i = 0; i < reserved.size(); ++i) {
      if (reserved.state(i) != ReservedBlocks::State::kReserved) continue;
      EXPECT_TRUE(reserved.slot(i).empty());
      pool.Write(reserved.offset(i), *plain_, blocks.first + i);
    }
    return reserved.Commit();
  }
  OnboardedBlocks Hold(Blocks blocks) {
    return *client_->Onboard(space_, plain_->KeysOf(blocks), kToGpu);
  }
  // Returns how many of the leased blocks the device reads right.
  size_t Proven(const OnboardedBlocks& held, Blocks blocks) {
    PoolOnDevice pool(device_.get(), *client_->gpu_memory());
    size_t proven = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      EXPECT_TRUE(held.bytes(i).empty());
      proven += pool.Holds(held.offset(i), *plain_, blocks.first + i) ? 1 : 0;
    }
    return held.valid() ? proven : 0;
  }

  MonotonicClock clock_;
  std::unique_ptr<Device> device_;
  ProcessCluster cluster_;
  AgentProcess* agent_ = nullptr;
  std::unique_ptr<TestWorker> plain_;
  std::unique_ptr<Client> client_;
  SpaceHandle space_{};
};

TEST_P(GpuByDeviceTest, BlocksAreOffsetsInThePoolAlsoAfterItHasGrown) {
  const Blocks computed = {.first = 100, .count = 8};
  ASSERT_EQ(Put(computed), computed.count);
  EXPECT_THAT(plain_->Get(computed), SizeIs(computed.count)) << "the agent copied them out";
  EXPECT_EQ(Proven(Hold(computed), computed), computed.count);
  EXPECT_EQ(client_->TakeSlots(space_, 2)->size(), 0) << "slots are the host's to write";

  const Blocks in_host = {.first = 200, .count = kHandle / kBlock};
  ASSERT_EQ(plain_->Put(in_host), in_host.count);
  ASSERT_EQ(agent_->ResizeGpu(2 * kHandle)->bytes(), 2 * kHandle);
  const OnboardedBlocks held = Hold(in_host);
  EXPECT_EQ(client_->gpu_memory()->handles.size(), 2);
  EXPECT_EQ(Proven(held, in_host), in_host.count);
}

INSTANTIATE_TEST_SUITE_P(Devices, GpuByDeviceTest, ::testing::Values("emulated", "cuda:0"),
                         [](const auto& info) {
                           return std::string(info.param) == "emulated" ? "Emulated" : "Cuda";
                         });

// A worker that reads the pool through the host cannot use memory of a GPU.
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
