// Grows and shrinks a GPU pool under workers of a real agent: they use memory that came, delay
// memory that leaves, and never take one for another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kHandle = uint64_t{2} << 20;
constexpr uint32_t kPerHandle = 32;  // Slots of 64 KiB.
constexpr absl::Duration kPatience = absl::Seconds(10);

class GpuResizeTest : public ::testing::Test {
 protected:
  // Makes a second worker take all slots of the first handle, so that others get slots of the next.
  void FillFirstHandle() {
    absl::StatusOr<GrantedSlots> slots = filler_.client().TakeSlots(filler_.space(), kPerHandle);
    ASSERT_TRUE(slots.ok());
    ASSERT_EQ(slots->size(), kPerHandle);
    first_handle_ = *std::move(slots);
  }
  void Resize(uint64_t bytes) {
    const absl::StatusOr<v1::GpuPoolSize> size = agent_.ResizeGpu(bytes);
    ASSERT_EQ(size.status(), absl::OkStatus());
    EXPECT_EQ(size->bytes(), bytes) << size->failure();
  }
  size_t MappedHandles() { return worker_.client().gpu_memory()->handles.size(); }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", {{"gpu_bytes", "2MiB"},
                                                        {"gpu_max_bytes", "8MiB"},
                                                        {"gpu_block_bytes", "64KiB"},
                                                        {"device", "emulated"}});
  const ReserveOptions through_gpu_ = {.target = OnboardTarget::kGpu};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  TestWorker filler_{{.socket_dir = agent_.socket_dir()}};
  std::optional<GrantedSlots> first_handle_;
};

TEST_F(GpuResizeTest, AWorkerUsesWhatCameWhileItLived) {
  FillFirstHandle();
  EXPECT_EQ(worker_.Put({.first = 100, .count = 8}, through_gpu_), 0);
  Resize(3 * kHandle);
  EXPECT_EQ(worker_.Put({.first = 200, .count = 8}, through_gpu_), 8);
  EXPECT_THAT(worker_.Get({.first = 200, .count = 8}, to_gpu_),
              AllOf(SizeIs(8), Each(BlockSource::kGpu)));
  EXPECT_THAT(worker_.Get({.first = 200, .count = 8}), SizeIs(8));
  EXPECT_EQ(MappedHandles(), 3);
  const auto more = worker_.client().TakeSlots(worker_.space(), 40);
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->size(), 40);
  EXPECT_EQ(more->memory().size(), 3 * kHandle);
}

// Another worker, with a mapping of its own, reads from the new handle what the first one wrote
// there.
TEST_F(GpuResizeTest, TwoWorkersMeetInAHandleThatCame) {
  FillFirstHandle();
  Resize(2 * kHandle);
  EXPECT_EQ(worker_.Put({.first = 100, .count = 8}, through_gpu_), 8);
  EXPECT_THAT(filler_.Get({.first = 100, .count = 8}, to_gpu_),
              AllOf(SizeIs(8), Each(BlockSource::kGpu)));
}

TEST_F(GpuResizeTest, AShrinkWaitsForALeaseAndEndsBehindIt) {
  FillFirstHandle();
  Resize(2 * kHandle);
  ASSERT_EQ(worker_.Put({.first = 100, .count = 4}, through_gpu_), 4);
  OnboardedBlocks held = worker_.Hold({.first = 100, .count = 4}, to_gpu_);
  ASSERT_EQ(held.size(), 4);
  const absl::StatusOr<v1::GpuPoolSize> size = agent_.ResizeGpu(kHandle);
  ASSERT_EQ(size.status(), absl::OkStatus());
  EXPECT_EQ(size->bytes(), 2 * kHandle);
  EXPECT_EQ(size->target_bytes(), kHandle);
  EXPECT_EQ(size->slots_in_use(), 4);
  EXPECT_EQ(size->workers(), 1);
  EXPECT_TRUE(worker_.Proves(held, 100));
  EXPECT_TRUE(held.valid());
  held.Release();
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.GpuSize().bytes() == kHandle; }));
  EXPECT_EQ(agent_.GpuSize().failure(), "");
  EXPECT_THAT(worker_.Get({.first = 100, .count = 4}), SizeIs(4)) << "host memory has them";
  // The worker unmaps the handle, because the memory is not free for others before.
  EXPECT_TRUE(Await(kPatience, [&] { return MappedHandles() == 1; }));
}

TEST_F(GpuResizeTest, ASlotThatCameAgainIsNotTakenForWhatItWas) {
  FillFirstHandle();
  for (uint64_t round = 0; round < 5; ++round) {
    Resize(2 * kHandle);
    const Blocks blocks = {.first = 100 * (round + 1), .count = 8};
    EXPECT_EQ(worker_.Put(blocks, through_gpu_), 8);
    EXPECT_THAT(worker_.Get(blocks, to_gpu_), AllOf(SizeIs(8), Each(BlockSource::kGpu)));
    EXPECT_THAT(worker_.Get(blocks), SizeIs(8)) << "as the agent gathered them";
    ASSERT_TRUE(agent_.AwaitLeases(0));
    Resize(kHandle);
    EXPECT_THAT(worker_.Get(blocks, to_gpu_), IsEmpty()) << "there is no room";
  }
}

TEST_F(GpuResizeTest, WorkersGoOnWhileThePoolChanges) {
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> put = 0;
  std::thread busy([&] {
    for (uint64_t first = 1000; !stop; first += 100) {
      const Blocks blocks = {.first = first, .count = 12};
      put += worker_.Put(blocks, through_gpu_);
      worker_.Get(blocks, to_gpu_);
      worker_.Get(blocks);
    }
  });
  for (int round = 0; round < 12; ++round) {
    ASSERT_EQ(agent_.ResizeGpu((round % 2 == 0 ? 4 : 1) * kHandle).status(), absl::OkStatus());
  }
  stop = true;
  busy.join();
  EXPECT_GT(put, 0);
  EXPECT_GT(worker_.verified_blocks(), 0);
  EXPECT_TRUE(Await(kPatience, [&] { return agent_.GpuSize().bytes() == kHandle; }));
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).verify_failures(), 0);
}

TEST_F(GpuResizeTest, SizesThatCannotBeAreRefusedByNameAndValue) {
  for (const uint64_t bytes : {uint64_t{0}, kHandle - 1, 4 * kHandle + 1}) {
    const absl::Status refused = agent_.ResizeGpu(bytes).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(std::string(refused.message()),
                AllOf(HasSubstr("bytes: "), HasSubstr(std::to_string(bytes))));
  }
  EXPECT_EQ(agent_.ResizeGpu(3 * kHandle - 1)->bytes(), 2 * kHandle) << "whole handles";
}

TEST(GpuResizeOfNoneTest, AnAgentWithoutAPoolSaysSo) {
  ProcessCluster cluster;
  AgentProcess& agent = cluster.StartAgent("node-a");
  const absl::Status refused = agent.ResizeGpu(kHandle).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("no GPU pool"));
}

}  // namespace
}  // namespace kvtier::testing
