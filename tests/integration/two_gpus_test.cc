// Tests a node with two GPUs, on emulated devices, end to end: an agent with a pool on each, and a
// worker on each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr OnboardOptions kToGpu = {.target = OnboardTarget::kGpu};
constexpr ReserveOptions kThroughGpu = {.target = OnboardTarget::kGpu};
constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr Blocks kOther = {.first = 200, .count = 16};

DeviceUuid UuidOf(uint8_t ordinal) {
  MonotonicClock clock;
  return EmulatedDevice(&clock, {.ordinal = ordinal}).uuid();
}

// Two pools of 16 slots.
class TwoGpusTest : public ::testing::Test {
 protected:
  static Flags PoolFlags() {
    return {
        {"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated:0,emulated:1"}};
  }
  v1::GpuReport Report(int gpu) { return agent_.Status().gpus(gpu); }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", PoolFlags());
  TestWorker first_{{.socket_dir = agent_.socket_dir(), .gpu_device = UuidOf(0)}};
  TestWorker second_{{.socket_dir = agent_.socket_dir(), .gpu_device = UuidOf(1)}};
};

TEST_F(TwoGpusTest, EachWorkerIsToldWhichGpuItHas) {
  EXPECT_EQ(first_.client().gpu_memory()->device, UuidOf(0));
  EXPECT_EQ(second_.client().gpu_memory()->device, UuidOf(1));
  EXPECT_EQ(agent_.Status().gpus_size(), 2);
  EXPECT_EQ(Report(0).uuid(), UuidOf(0).ToString());
  EXPECT_EQ(Report(1).uuid(), UuidOf(1).ToString());
  EXPECT_EQ(Report(1).workers(), 1);
}

TEST_F(TwoGpusTest, BlocksOfOneAreHitsOfTheOtherByWayOfHostMemory) {
  ASSERT_EQ(first_.Put(kPrefix, kThroughGpu), kPrefix.count);
  EXPECT_THAT(first_.Get(kPrefix, kToGpu), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
  EXPECT_THAT(second_.Get(kPrefix, kToGpu), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_THAT(second_.Get(kPrefix, kToGpu), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
  EXPECT_EQ(Report(0).onboard().copies(), 0);
  EXPECT_GT(Report(1).onboard().copies(), 0);
}

TEST_F(TwoGpusTest, OneThatIsFullTakesNoSlotOfTheOther) {
  ASSERT_EQ(second_.Put(kPrefix, kThroughGpu), kPrefix.count);
  const OnboardedBlocks held = second_.Hold(kPrefix, kToGpu);
  ASSERT_EQ(held.size(), kPrefix.count);
  ASSERT_EQ(first_.Put(kOther, kThroughGpu), kOther.count);
  ASSERT_EQ(first_.Put({.first = 300, .count = 16}, kThroughGpu), 16);
  EXPECT_EQ(Report(1).free_slots(), 16 - kPrefix.count);
  EXPECT_TRUE(second_.Proves(held, kPrefix.first));
}

TEST_F(TwoGpusTest, AWorkerOfAGpuThatTheNodeDoesNotServeHasNoPoolAndHostMemoryAllTheSame) {
  TestWorker stranger{{.socket_dir = agent_.socket_dir(), .gpu_device = UuidOf(7)}};
  EXPECT_EQ(stranger.client().gpu_memory(), nullptr);
  EXPECT_EQ(stranger.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(stranger.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_THAT(first_.Get(kPrefix), SizeIs(kPrefix.count));
}

TEST_F(TwoGpusTest, TheMemoryOfOneIsNotTakenForThatOfAnother) {
  MonotonicClock clock;
  EmulatedDevice mine(&clock, {.ordinal = 1});
  const auto pool = first_.client().gpu_memory();
  const int handle = pool->handles[0].get();
  const auto region =
      mine.ImportRegion({.handle_bytes = pool->handle_bytes, .max_handles = pool->max_handles},
                        {&handle, 1}, pool->device);
  EXPECT_EQ(region.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(region.status().message()), HasSubstr(UuidOf(0).ToString()));
}

}  // namespace
}  // namespace kvtier::testing
