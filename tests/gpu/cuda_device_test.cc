// The CUDA form of the Device seam, on a GPU: the same promises as the emulated one.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/task_scope.h"
#include "core/thread_executor.h"
#include "tests/testing/blocks.h"
#include "tier_gpu/device/open_device.h"
#include "tier_gpu/gpu_pool.h"

namespace kvtier {
namespace {

constexpr uint64_t kSlot = uint64_t{2} << 20;
constexpr size_t kSlots = 64;

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = OpenDevice("cuda:0", &executor_, &workers_);
    if (!device.ok()) GTEST_SKIP() << "NOT TESTED: " << device.status();
    device_ = *std::move(device);
  }
  void TearDown() override { executor_.Stop(); }

  static Task<void> Record(Task<absl::Status> copy, absl::Status* status,
                           absl::Notification* done) {
    *status = co_await copy;
    done->Notify();
  }
  absl::Status Finish(Task<absl::Status> copy) {
    absl::Status status;
    absl::Notification done;
    executor_.Post([&] { scope_.Spawn(Record(std::move(copy), &status, &done)); });
    done.WaitForNotification();
    return status;
  }

  ThreadExecutor executor_{"test"};
  BytePool workers_{&executor_, "bytes", 1};
  std::unique_ptr<Device> device_;
  TaskScope scope_{&executor_};
};

TEST_F(CudaDeviceTest, WhatIsScatteredIsGatheredAgain) {
  auto pool = GpuPool::Create(device_.get(), kSlots * kSlot, kSlot);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_GE((*pool)->fd(), 0);
  std::vector<std::byte> host(2 * kSlots * kSlot);
  ASSERT_EQ(device_->Pin(host), absl::OkStatus());
  const auto in = std::span(host).first(kSlots * kSlot);
  const auto out = std::span(host).last(kSlots * kSlot);
  std::vector<GpuSlot> slots;
  std::vector<GpuTransfer> there;
  std::vector<GpuTransfer> back;
  for (size_t i = 0; i < kSlots; ++i) {
    slots.push_back(*(*pool)->Reserve());
    testing::FillBlock(1, testing::TestEngineKey(i), in.subspan(i * kSlot, kSlot));
    there.push_back({slots[i].offset(), in.subspan(i * kSlot, kSlot)});
    back.push_back({slots[i].offset(), out.subspan(i * kSlot, kSlot)});
  }
  ASSERT_EQ(Finish((*pool)->Scatter(there)), absl::OkStatus());
  ASSERT_EQ(Finish((*pool)->Gather(back)), absl::OkStatus());
  for (size_t i = 0; i < kSlots; ++i) {
    EXPECT_TRUE(testing::HoldsBlock(1, testing::TestEngineKey(i), out.subspan(i * kSlot, kSlot)));
  }
  device_.reset();  // Before the memory it pinned.
}

TEST_F(CudaDeviceTest, MemoryThatIsNotThereIsResourceExhausted) {
  const auto region = device_->CreateRegion(uint64_t{1} << 44);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(device_->CreateRegion(kSlot).ok()) << "the device goes on";
}

}  // namespace
}  // namespace kvtier
