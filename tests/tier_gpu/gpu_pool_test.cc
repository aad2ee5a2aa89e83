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
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_executor.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr uint64_t kSlot = 8192;
constexpr uint64_t kHandle = kRegionGranularity;
constexpr uint64_t kTenant = 1;
// Number of slots: five batches, the last of them one slot.
constexpr size_t kSlots = 4 * kMaxCopyBytes / kSlot + 1;

class GpuPoolTest : public ::testing::Test {
 protected:
  static Task<void> Record(Task<absl::Status> copy, absl::Status* status) {
    *status = co_await copy;
  }
  static Task<void> Count(Task<size_t> cut, size_t* count) { *count = co_await cut; }
  size_t Finish(Task<size_t> cut) {
    size_t count = ~size_t{0};
    scope_.Spawn(Count(std::move(cut), &count));
    while (time_.Step()) {
    }
    return count;
  }
  absl::Status Finish(Task<absl::Status> copy) {
    absl::Status status = absl::UnknownError("the copy never ended");
    scope_.Spawn(Record(std::move(copy), &status));
    while (time_.Step()) {
    }
    return status;
  }
  std::unique_ptr<GpuPool> MakePool(uint64_t bytes, uint64_t slot, uint64_t most = 0) {
    return *GpuPool::Create(&device_, &runner_,
                            {.bytes = bytes, .slot_bytes = slot, .max_bytes = most});
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
  testing::FaultyDevice device_{&executor_, {}};
  LaneRunner runner_{&device_, &executor_, &executor_};
  std::unique_ptr<GpuPool> pool_ = MakePool(kSlots * kSlot, kSlot);
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
  ASSERT_EQ(Finish(pool_->Gather(back, CopyUrgency::kBackground)), absl::OkStatus());
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
  ASSERT_EQ(Finish(pool_->Gather({&transfer, 1}, CopyUrgency::kBackground)), absl::OkStatus());
  EXPECT_EQ(host.front(), std::byte{'b'});
  EXPECT_EQ(host.back(), std::byte{'b'});
}

TEST_F(GpuPoolTest, ErrorsOfTheDeviceReachTheCaller) {
  const GpuSlot slot = MustReserve();
  std::vector<std::byte> host(kSlot);
  ASSERT_TRUE(device_.Pin(host).ok());
  const GpuTransfer transfer = {slot.ref(), host};
  device_.FailCopy(CopyDirection::kDeviceToHost, 1);
  EXPECT_EQ(Finish(pool_->Gather({&transfer, 1}, CopyUrgency::kBackground)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Finish(pool_->Gather({&transfer, 1}, CopyUrgency::kBackground)), absl::OkStatus());
  device_.Lose();
  EXPECT_EQ(Finish(pool_->Scatter({&transfer, 1})).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(
      GpuPool::Create(&device_, &runner_, {.bytes = kSlot, .slot_bytes = kSlot}).status().code(),
      absl::StatusCode::kUnavailable);
}

TEST_F(GpuPoolTest, APoolIsRoundedDownToWholeSlots) {
  EXPECT_EQ(MakePool(3 * kSlot - 1, kSlot)->capacity_bytes(), 2 * kSlot);
}

TEST_F(GpuPoolTest, ALargePoolIsOneRangeOfSeveralHandles) {
  constexpr uint64_t kOdd = 33 * 1024 * 1024 + 4096;  // No handle ends where a slot does.
  const auto pool = MakePool(100 * kOdd, kOdd);
  DeviceRegion* const region = pool->region();
  EXPECT_EQ(region->handles(), 4u);
  EXPECT_EQ(region->shape().max_handles, 4u);
  EXPECT_EQ(pool->capacity_bytes(), 100 * kOdd);
  EXPECT_EQ(pool->OffsetOf(99), 99 * kOdd);
  pool->Audit();
  region->address()[region->shape().handle_bytes] = std::byte{1};
  const GpuSlot over_the_border = [&] {
    std::vector<GpuSlot> slots;
    while (slots.size() < 32) slots.push_back(*pool->Reserve());
    return std::move(slots.back());
  }();
  std::vector<std::byte> host(kOdd);
  ASSERT_TRUE(device_.Pin(host).ok());
  const GpuTransfer transfer = {over_the_border.ref(), host};
  ASSERT_EQ(Finish(pool->Gather({&transfer, 1}, CopyUrgency::kBackground)), absl::OkStatus());
  EXPECT_EQ(host[region->shape().handle_bytes - over_the_border.offset()], std::byte{1});
}

// The emulated device refuses a copy that crosses the border of two handles, as a driver may.
TEST_F(GpuPoolTest, CopiesAreCutAtTheBordersOfHandles) {
  // The first slots end where handles do; some of the second lie in two handles.
  for (const uint64_t slot : {kHandle / 4, kHandle / 4 + 4096}) {
    const auto pool = MakePool(kHandle, slot, 3 * kHandle);
    while (pool->handles().size() < 3) ASSERT_EQ(Finish(pool->Grow()), absl::OkStatus());
    std::vector<GpuSlot> slots;
    for (auto taken = pool->Reserve(); taken.ok(); taken = pool->Reserve()) {
      slots.push_back(*std::move(taken));
    }
    std::vector<std::byte> host(slots.size() * slot);
    ASSERT_TRUE(device_.Pin(host).ok());
    std::vector<GpuTransfer> transfers;
    for (size_t i = 0; i < slots.size(); ++i) {
      transfers.push_back({slots[i].ref(), std::span(host).subspan(i * slot, slot)});
    }
    std::mt19937_64 random(testing::TestSeed());
    for (std::byte& byte : host) byte = static_cast<std::byte>(random());
    const std::vector<std::byte> written = host;
    ASSERT_EQ(Finish(pool->Scatter(transfers)), absl::OkStatus());
    std::ranges::fill(host, std::byte{});
    ASSERT_EQ(Finish(pool->Gather(transfers, CopyUrgency::kBackground)), absl::OkStatus());
    EXPECT_TRUE(host == written);
    EXPECT_EQ(device_.Unpin(host), absl::OkStatus());
  }
}

TEST_F(GpuPoolTest, APoolGrowsByWholeHandlesUpToItsMost) {
  const auto pool = MakePool(kHandle, kSlot, 3 * kHandle);
  constexpr uint64_t kPerHandle = kHandle / kSlot;
  EXPECT_EQ(pool->table().slots(), kPerHandle);
  EXPECT_EQ(pool->region()->handles(), 1u);
  ASSERT_EQ(Finish(pool->Grow()), absl::OkStatus());
  ASSERT_EQ(Finish(pool->Grow()), absl::OkStatus());
  EXPECT_EQ(Finish(pool->Grow()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool->table().slots(), 3 * kPerHandle);
  EXPECT_EQ(pool->handles().size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(pool->handles()[i].since, i + 1);
  EXPECT_EQ(pool->version(), 3u);
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

// Fixture with a pool of at most three handles, and all of them present.
class ResizedPoolTest : public GpuPoolTest {
 protected:
  static constexpr uint32_t kPerHandle = kHandle / kSlot;
  void SetUp() override {
    ASSERT_EQ(Finish(three_->Grow()), absl::OkStatus());
    ASSERT_EQ(Finish(three_->Grow()), absl::OkStatus());
  }
  std::vector<GpuSlot> TakeAll() {
    std::vector<GpuSlot> slots;
    for (auto slot = three_->Reserve(); slot.ok(); slot = three_->Reserve()) {
      slots.push_back(*std::move(slot));
    }
    return slots;
  }
  size_t FreeClosed() { return Finish(three_->FreeClosed()); }

  std::unique_ptr<GpuPool> three_ = MakePool(kHandle, kSlot, 3 * kHandle);
};

TEST_F(ResizedPoolTest, AHandleGoesWhenNobodyHasToDoWithItsSlots) {
  std::vector<GpuSlot> slots = TakeAll();
  const PoolWorker worker{1};
  ASSERT_EQ(three_->table().Begin(worker, 1), absl::OkStatus());
  const SlotRef last = three_->table().Ref(3 * kPerHandle - 1);
  ASSERT_EQ(three_->table().Hold(worker, last), absl::OkStatus());
  three_->BeginShrink(1);
  EXPECT_EQ(FreeClosed(), 0u);
  EXPECT_EQ(Finish(three_->Grow()).code(), absl::StatusCode::kFailedPrecondition);
  slots.clear();
  EXPECT_EQ(FreeClosed(), 0u) << "the worker holds its last slot";
  ASSERT_EQ(three_->table().Release(worker, last), absl::OkStatus());
  EXPECT_EQ(FreeClosed(), 0u) << "its step may still read it";
  EXPECT_LT(MustTake(*three_).offset(), kHandle) << "what is closed is not handed out";
  ASSERT_EQ(three_->table().Retire(worker, 1), absl::OkStatus());
  EXPECT_EQ(FreeClosed(), 2u);
  EXPECT_EQ(three_->region()->handles(), 1u);
  EXPECT_EQ(three_->handles().size(), 1u);
  EXPECT_EQ(three_->capacity_bytes(), kHandle);
  EXPECT_EQ(FreeClosed(), 0u) << "nothing is closed any more";
  three_->Audit();
}

TEST_F(ResizedPoolTest, HandlesGoFromTheEndAsFarAsTheyAreFree) {
  std::vector<GpuSlot> slots = TakeAll();
  std::erase_if(slots, [](const GpuSlot& slot) { return slot.ref().index != kPerHandle; });
  three_->BeginShrink(1);
  EXPECT_EQ(FreeClosed(), 1u);
  EXPECT_EQ(three_->handles().size(), 2u);
  EXPECT_EQ(three_->table().slots(), 2 * kPerHandle);
  slots.clear();
  EXPECT_EQ(FreeClosed(), 1u);
  three_->Audit();
}

TEST_F(ResizedPoolTest, AHandleThatComesAgainIsAnotherMemory) {
  const uint64_t before = three_->handles()[1].since;
  three_->region()->address()[kHandle] = std::byte{7};
  three_->BeginShrink(1);
  ASSERT_EQ(FreeClosed(), 2u);
  ASSERT_EQ(Finish(three_->Grow()), absl::OkStatus());
  EXPECT_GT(three_->handles()[1].since, before);
  EXPECT_EQ(three_->handles()[0].since, 1u);
  EXPECT_EQ(three_->region()->address()[kHandle], std::byte{0});
  three_->Audit();
}

TEST_F(ResizedPoolTest, ASlotOverABorderGoesWithTheHandleItEndsIn) {
  constexpr uint64_t kOdd = kHandle / 2 + 4096;
  const auto pool = MakePool(kHandle, kOdd, 2 * kHandle);
  ASSERT_EQ(pool->table().slots(), 1u);
  ASSERT_EQ(Finish(pool->Grow()), absl::OkStatus());
  ASSERT_EQ(pool->table().slots(), 3u);
  GpuSlot first = MustTake(*pool);
  const GpuSlot second = MustTake(*pool);
  pool->BeginShrink(1);
  EXPECT_EQ(Finish(pool->FreeClosed()), 0u) << second.ref().index;
  pool->CancelShrink();
}

TEST_F(ResizedPoolTest, APoolThatKeepsItsSizeHandsItsSlotsOutAgain) {
  std::vector<GpuSlot> slots = TakeAll();
  three_->BeginShrink(2);
  EXPECT_EQ(FreeClosed(), 0u);
  std::erase_if(slots, [](const GpuSlot& slot) { return slot.ref().index + 1 == 3 * kPerHandle; });
  EXPECT_FALSE(three_->Reserve().ok());
  three_->CancelShrink();
  EXPECT_TRUE(three_->Reserve().ok());
  three_->Audit();
}

// A copy runs in the first handle while the others are added and removed; all accesses are ordered.
TEST_F(ResizedPoolTest, CopiesRunWhileThePoolChanges) {
  AccessChecker checker(kSlot);
  std::vector<std::byte> host(16 * kSlot);
  testing::FaultyDevice device(&executor_, {.seed = 7, .checker = &checker});
  ASSERT_TRUE(device.Pin(host).ok());
  LaneRunner runner(&device, &executor_, &executor_);
  const auto pool = *GpuPool::Create(
      &device, &runner, {.bytes = kHandle, .slot_bytes = kSlot, .max_bytes = 3 * kHandle});
  ASSERT_EQ(Finish(pool->Grow()), absl::OkStatus());
  std::vector<GpuSlot> slots;
  std::vector<GpuTransfer> in;
  std::vector<GpuTransfer> out;
  for (size_t i = 0; i < 8; ++i) {
    slots.push_back(MustTake(*pool));
    const auto from = std::span(host).subspan(i * kSlot, kSlot);
    testing::FillBlock(kTenant, testing::TestEngineKey(i), from);
    device.NoteHostAccess(AccessChecker::Access::kWrite, from);
    in.push_back({slots[i].ref(), from});
    out.push_back({slots[i].ref(), std::span(host).subspan((8 + i) * kSlot, kSlot)});
  }
  absl::Status scattered = absl::UnknownError("runs");
  size_t cut = 0;
  absl::Status grown = absl::UnknownError("runs");
  scope_.Spawn(Record(pool->Scatter(in), &scattered));
  pool->BeginShrink(1);
  scope_.Spawn(Count(pool->FreeClosed(), &cut));
  while (cut == 0) ASSERT_TRUE(time_.Step());
  EXPECT_EQ(scattered.code(), absl::StatusCode::kUnknown) << "the cut did not wait for it";
  scope_.Spawn(Record(pool->Grow(), &grown));
  while (time_.Step()) {
  }
  EXPECT_EQ(scattered, absl::OkStatus());
  EXPECT_EQ(grown, absl::OkStatus());
  ASSERT_EQ(Finish(pool->Gather(out, CopyUrgency::kBackground)), absl::OkStatus());
  for (size_t i = 0; i < 8; ++i) {
    device.NoteHostAccess(AccessChecker::Access::kRead, out[i].host);
    EXPECT_TRUE(testing::HoldsBlock(kTenant, testing::TestEngineKey(i), out[i].host)) << i;
  }
  EXPECT_TRUE(checker.races().empty());
}

TEST_F(GpuPoolTest, APoolAsLargeAsItMayBecomeIsOneHandleIfItIsSmall) {
  const auto pool = MakePool(2 * kHandle, kSlot, 2 * kHandle);
  EXPECT_EQ(pool->handles().size(), 1u);
  EXPECT_EQ(pool->max_handles(), 1u);
}

TEST_F(GpuPoolTest, NoMemoryForAHandleLeavesThePoolAsItIs) {
  const auto pool = MakePool(kHandle, kSlot, kHandle);
  EXPECT_EQ(Finish(pool->Grow()).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool->version(), 1u);
  EXPECT_EQ(pool->handles().size(), 1u);
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
