#include "tier_gpu/gpu_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/task_scope.h"
#include "tests/testing/blocks.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/test_seed.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier {
namespace {

constexpr uint64_t kSlot = 8192;
constexpr uint64_t kTenant = 1;
// Five batches, the last of them one slot.
constexpr size_t kSlots = 4 * kMaxCopyBytes / kSlot + 1;

class GpuPoolTest : public ::testing::Test {
 protected:
  static Task<void> Record(Task<absl::Status> copy, absl::Status* status) {
    *status = co_await copy;
  }
  absl::Status Finish(Task<absl::Status> copy) {
    absl::Status status = absl::UnknownError("the copy never ended");
    scope_.Spawn(Record(std::move(copy), &status));
    while (time_.Step()) {
    }
    return status;
  }
  GpuSlot MustReserve() { return MustTake(*pool_); }
  static GpuSlot MustTake(GpuPool& pool) {
    auto slot = pool.Reserve();
    EXPECT_TRUE(slot.ok()) << slot.status();
    return *std::move(slot);
  }
  std::vector<GpuSlot> ReserveAll() {
    std::vector<GpuSlot> slots;
    for (size_t i = 0; i < kSlots; ++i) slots.push_back(MustReserve());
    return slots;
  }

  testing::SimTime time_;
  testing::SimExecutor executor_{&time_};
  EmulatedDevice device_{&executor_, {}};
  LaneRunner runner_{&device_, &executor_, &executor_};
  std::unique_ptr<GpuPool> pool_ = *GpuPool::Create(&device_, &runner_, kSlots* kSlot, kSlot);
  TaskScope scope_{&executor_};
};

TEST_F(GpuPoolTest, WhatIsScatteredIsGatheredAgain) {
  const std::vector<GpuSlot> slots = ReserveAll();
  std::vector<std::byte> in(kSlots * kSlot);
  std::vector<std::byte> out(kSlots * kSlot);
  ASSERT_TRUE(device_.Pin(in).ok() && device_.Pin(out).ok());
  std::vector<GpuTransfer> there;
  std::vector<GpuTransfer> back;
  for (size_t i = 0; i < kSlots; ++i) {
    const auto block = std::span(in).subspan(i * kSlot, kSlot);
    testing::FillBlock(kTenant, testing::TestEngineKey(i), block);
    there.push_back({slots[i].ref(), block});
    back.push_back({slots[i].ref(), std::span(out).subspan(i * kSlot, kSlot)});
  }
  ASSERT_EQ(Finish(pool_->Scatter(there)), absl::OkStatus());
  std::reverse(back.begin(), back.end());
  ASSERT_EQ(Finish(pool_->Gather(back)), absl::OkStatus());
  for (size_t i = 0; i < kSlots; ++i) {
    ASSERT_TRUE(testing::HoldsBlock(kTenant, testing::TestEngineKey(i),
                                    std::span(out).subspan(i * kSlot, kSlot)))
        << "block " << i;
  }
}

TEST_F(GpuPoolTest, NoTwoSlotsShareAByte) {
  const std::vector<GpuSlot> slots = ReserveAll();
  std::set<uint64_t> offsets;
  for (const GpuSlot& slot : slots) {
    EXPECT_EQ(slot.offset() % kSlot, 0u);
    EXPECT_LE(slot.offset() + kSlot, pool_->capacity_bytes());
    offsets.insert(slot.offset());
  }
  EXPECT_EQ(offsets.size(), kSlots);
  EXPECT_EQ(pool_->used_bytes(), pool_->capacity_bytes());
  pool_->Audit();
}

TEST_F(GpuPoolTest, AFullPoolIsResourceExhaustedUntilASlotComesBack) {
  std::vector<GpuSlot> slots = ReserveAll();
  EXPECT_EQ(pool_->Reserve().status().code(), absl::StatusCode::kResourceExhausted);
  const uint64_t offset = slots.back().offset();
  slots.pop_back();
  EXPECT_EQ(MustReserve().offset(), offset);
}

TEST_F(GpuPoolTest, AMovedSlotIsGivenBackOnce) {
  GpuSlot first = MustReserve();
  GpuSlot second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): the state after a move is promised.
  first.Release();
  EXPECT_EQ(pool_->used_bytes(), kSlot);
  second = MustReserve();
  EXPECT_EQ(pool_->used_bytes(), kSlot) << "the old slot went back on assignment";
  GpuSlot& itself = second;
  second = std::move(itself);
  EXPECT_TRUE(second);
  second.Release();
  second.Release();
  EXPECT_EQ(pool_->used_bytes(), 0u);
}

TEST_F(GpuPoolTest, AnotherProcessSharesTheRegionByDescriptor) {
  const GpuSlot slot = MustReserve();
  std::vector<std::byte> host(kSlot, std::byte{'a'});
  ASSERT_TRUE(device_.Pin(host).ok());
  const GpuTransfer transfer = {slot.ref(), host};
  ASSERT_EQ(Finish(pool_->Scatter({&transfer, 1})), absl::OkStatus());
  const pid_t worker = fork();
  if (worker == 0) {
    const auto imported = EmulatedRegion::Reserve(pool_->region()->shape(), nullptr);
    if (!imported.ok() || !(*imported)->GrowBy(pool_->region()->descriptor(0)).ok()) _exit(1);
    char* const block = reinterpret_cast<char*>((*imported)->address()) + slot.offset();
    if (block[0] != 'a' || block[kSlot - 1] != 'a') _exit(2);
    std::memset(block, 'b', kSlot);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(worker, &status, 0), worker);
  EXPECT_EQ(status, 0);
  // The worker is gone; its block is not.
  ASSERT_EQ(Finish(pool_->Gather({&transfer, 1})), absl::OkStatus());
  EXPECT_EQ(host.front(), std::byte{'b'});
  EXPECT_EQ(host.back(), std::byte{'b'});
}

TEST_F(GpuPoolTest, ErrorsOfTheDeviceReachTheCaller) {
  const GpuSlot slot = MustReserve();
  std::vector<std::byte> host(kSlot);
  ASSERT_TRUE(device_.Pin(host).ok());
  const GpuTransfer transfer = {slot.ref(), host};
  device_.FailCopy(CopyDirection::kDeviceToHost, 1);
  EXPECT_EQ(Finish(pool_->Gather({&transfer, 1})).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Finish(pool_->Gather({&transfer, 1})), absl::OkStatus());
  device_.Lose();
  EXPECT_EQ(Finish(pool_->Scatter({&transfer, 1})).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GpuPool::Create(&device_, &runner_, kSlot, kSlot).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GpuPoolTest, APoolIsRoundedDownToWholeSlots) {
  const auto pool = GpuPool::Create(&device_, &runner_, 3 * kSlot - 1, kSlot);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_EQ((*pool)->capacity_bytes(), 2 * kSlot);
}

TEST_F(GpuPoolTest, ALargePoolIsOneRangeOfSeveralHandles) {
  constexpr uint64_t kOdd = 33 * 1024 * 1024 + 4096;  // No handle ends where a slot does.
  const auto pool = GpuPool::Create(&device_, &runner_, 100 * kOdd, kOdd);
  ASSERT_TRUE(pool.ok()) << pool.status();
  DeviceRegion* const region = (*pool)->region();
  EXPECT_EQ(region->handles(), 4u);
  EXPECT_EQ(region->shape().max_handles, 4u);
  EXPECT_EQ((*pool)->capacity_bytes(), 100 * kOdd);
  EXPECT_EQ((*pool)->OffsetOf(99), 99 * kOdd);
  (*pool)->Audit();
  region->address()[region->shape().handle_bytes] = std::byte{1};
  const GpuSlot over_the_border = [&] {
    std::vector<GpuSlot> slots;
    while (slots.size() < 32) slots.push_back(*(*pool)->Reserve());
    return std::move(slots.back());
  }();
  std::vector<std::byte> host(kOdd);
  ASSERT_TRUE(device_.Pin(host).ok());
  const GpuTransfer transfer = {over_the_border.ref(), host};
  ASSERT_EQ(Finish((*pool)->Gather({&transfer, 1})), absl::OkStatus());
  EXPECT_EQ(host[region->shape().handle_bytes - over_the_border.offset()], std::byte{1});
}

TEST_F(GpuPoolTest, APoolGrowsByWholeHandlesUpToItsMost) {
  constexpr uint64_t kHandle = kRegionGranularity;
  const auto pool = *GpuPool::Create(&device_, &runner_, kHandle, kSlot, 3 * kHandle);
  constexpr uint64_t kPerHandle = kHandle / kSlot;
  EXPECT_EQ(pool->table().slots(), kPerHandle);
  EXPECT_EQ(pool->region()->handles(), 1u);
  ASSERT_EQ(pool->Grow(), absl::OkStatus());
  ASSERT_EQ(pool->Grow(), absl::OkStatus());
  EXPECT_EQ(pool->Grow().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool->table().slots(), 3 * kPerHandle);
  std::vector<GpuSlot> slots;
  std::set<uint64_t> offsets;
  for (auto slot = pool->Reserve(); slot.ok(); slot = pool->Reserve()) {
    offsets.insert(slot->offset());
    slots.push_back(*std::move(slot));
  }
  EXPECT_EQ(offsets.size(), 3 * kPerHandle);
  EXPECT_EQ(*offsets.rbegin(), 3 * kHandle - kSlot);
  pool->Audit();
}

TEST_F(GpuPoolTest, AHandleGoesWhenNobodyHasToDoWithItsSlots) {
  constexpr uint64_t kHandle = kRegionGranularity;
  const auto pool = *GpuPool::Create(&device_, &runner_, 2 * kHandle, kSlot, 2 * kHandle);
  EXPECT_EQ(pool->region()->handles(), 1u) << "a pool that small is one handle";
  const auto two = *GpuPool::Create(&device_, &runner_, kHandle, kSlot, 2 * kHandle);
  ASSERT_EQ(two->Grow(), absl::OkStatus());
  std::vector<GpuSlot> slots;
  for (auto slot = two->Reserve(); slot.ok(); slot = two->Reserve()) {
    slots.push_back(*std::move(slot));
  }
  const PoolWorker worker{1};
  ASSERT_EQ(two->table().Begin(worker, 1), absl::OkStatus());
  const SlotRef last = {static_cast<uint32_t>(two->table().slots() - 1), 1};
  ASSERT_EQ(two->table().Hold(worker, last), absl::OkStatus());
  EXPECT_FALSE(two->Shrink());
  EXPECT_EQ(two->Grow().code(), absl::StatusCode::kFailedPrecondition);
  slots.clear();
  EXPECT_FALSE(two->Shrink()) << "the worker holds its last slot";
  ASSERT_EQ(two->table().Release(worker, last), absl::OkStatus());
  EXPECT_FALSE(two->Shrink()) << "its step may still read it";
  EXPECT_LT(MustTake(*two).offset(), kHandle) << "what is closed is not handed out";
  ASSERT_EQ(two->table().Retire(worker, 1), absl::OkStatus());
  EXPECT_TRUE(two->Shrink());
  EXPECT_EQ(two->region()->handles(), 1u);
  EXPECT_EQ(two->capacity_bytes(), kHandle);
  EXPECT_FALSE(two->Shrink()) << "one handle stays";
  two->Audit();
  ASSERT_EQ(two->Grow(), absl::OkStatus());
  two->Audit();
}

TEST_F(GpuPoolTest, APoolThatKeepsItsSizeHandsItsSlotsOutAgain) {
  constexpr uint64_t kHandle = kRegionGranularity;
  const auto pool = *GpuPool::Create(&device_, &runner_, kHandle, kSlot, 2 * kHandle);
  ASSERT_EQ(pool->Grow(), absl::OkStatus());
  std::vector<GpuSlot> slots;
  while (slots.size() < pool->table().slots()) slots.push_back(MustTake(*pool));
  EXPECT_FALSE(pool->Shrink());
  slots.pop_back();
  EXPECT_FALSE(pool->Reserve().ok());
  pool->KeepSize();
  EXPECT_TRUE(pool->Reserve().ok());
  pool->Audit();
}

TEST_F(GpuPoolTest, RandomReservesAndReleasesNeverShareASlot) {
  std::mt19937_64 random(testing::TestSeed());
  std::vector<GpuSlot> held;
  std::set<uint64_t> offsets;
  for (int step = 0; step < 20'000; ++step) {
    const bool filling = (step / 2'500) % 2 == 0;
    if (held.empty() || random() % 100 < (filling ? 90 : 10)) {
      auto slot = pool_->Reserve();
      ASSERT_EQ(slot.ok(), held.size() < kSlots);
      if (!slot.ok()) continue;
      ASSERT_TRUE(offsets.insert(slot->offset()).second) << "shared: " << slot->offset();
      held.push_back(*std::move(slot));
    } else {
      std::swap(held[random() % held.size()], held.back());
      offsets.erase(held.back().offset());
      held.pop_back();
    }
    ASSERT_EQ(pool_->used_bytes(), held.size() * kSlot);
    if (step % 500 == 0) pool_->Audit();
  }
}

using GpuPoolDeathTest = GpuPoolTest;

TEST_F(GpuPoolDeathTest, APoolThatEndsBeforeItsSlotsAborts) {
  EXPECT_DEATH(
      {
        const GpuSlot slot = MustReserve();
        pool_.reset();
      },
      "CHECK failed");
}

TEST_F(GpuPoolDeathTest, ACopyIntoASlotThatWasGivenBackAborts) {
  std::vector<std::byte> host(kSlot);
  GpuSlot slot = MustReserve();
  const GpuTransfer transfer = {slot.ref(), host};
  slot.Release();
  EXPECT_DEATH((void)Finish(pool_->Scatter({&transfer, 1})), "CHECK failed");
}

TEST_F(GpuPoolDeathTest, HostMemoryOfAnotherSizeAborts) {
  const GpuSlot slot = MustReserve();
  std::vector<std::byte> host(kSlot - 1);
  const GpuTransfer transfer = {slot.ref(), host};
  EXPECT_DEATH((void)Finish(pool_->Scatter({&transfer, 1})), "CHECK failed");
}

}  // namespace
}  // namespace kvtier
