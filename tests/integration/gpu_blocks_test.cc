// Tests the GPU pool, on the emulated device, end to end: put through it, hit in it, and bytes
// right when read through the mapped pool.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/testing/patience.h"
#include "tests/testing/process_cluster.h"
#include "tests/testing/test_worker.h"

namespace kvtier::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Blocks kPrefix = {.first = 100, .count = 8};
constexpr uint64_t kPrefixBytes = kPrefix.count * (uint64_t{64} << 10);

// A pool of 16 slots.
class GpuBlocksTest : public ::testing::Test {
 protected:
  static Flags PoolFlags() {
    return {{"gpu_bytes", "1MiB"}, {"gpu_block_bytes", "64KiB"}, {"device", "emulated"}};
  }

  ProcessCluster cluster_;
  AgentProcess& agent_ = cluster_.StartAgent("node-a", PoolFlags());
  TestWorker worker_{{.socket_dir = agent_.socket_dir()}};
  const OnboardOptions to_gpu_ = {.target = OnboardTarget::kGpu};
  const ReserveOptions through_gpu_ = {.target = OnboardTarget::kGpu};
};

TEST_F(GpuBlocksTest, APutThroughTheGpuIsAHitThereAndInHostMemory) {
  EXPECT_THAT(agent_.Status().device(), ::testing::HasSubstr("emulated"));
  ASSERT_EQ(worker_.Put(kPrefix, through_gpu_), kPrefix.count);
  EXPECT_THAT(worker_.Get(kPrefix), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));

  const v1::TierReport gpu = agent_.TierStatus(Tier::kGpu);
  EXPECT_EQ(gpu.capacity_bytes(), uint64_t{1} << 20);
  EXPECT_EQ(gpu.blocks(), kPrefix.count);
  EXPECT_EQ(gpu.inserts(), kPrefix.count);
  EXPECT_EQ(gpu.hits(), kPrefix.count);
  EXPECT_EQ(gpu.used_bytes(), kPrefixBytes);
  EXPECT_GE(gpu.bytes_out(), kPrefixBytes);

  ASSERT_EQ(agent_.Status().gpus_size(), 1);
  const v1::GpuReport pool = agent_.Status().gpus(0);
  EXPECT_EQ(pool.tenant(), "default");
  EXPECT_EQ(pool.slots(), 16);
  EXPECT_EQ(pool.free_slots(), 16 - kPrefix.count);
  EXPECT_EQ(pool.workers(), 1);
  EXPECT_EQ(pool.offload().bytes(), kPrefixBytes);
  EXPECT_GT(pool.offload().best_bytes_per_second(), 0);
  EXPECT_EQ(pool.offload().in_flight(), 0);
  EXPECT_EQ(pool.onboard().copies(), 0);
}

TEST_F(GpuBlocksTest, AHostBlockIsOnboardedToTheGpuAndStaysThere) {
  ASSERT_EQ(worker_.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_),
              AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
  const v1::TierReport gpu = agent_.TierStatus(Tier::kGpu);
  EXPECT_EQ(gpu.inserts(), kPrefix.count);
  EXPECT_EQ(gpu.bytes_in(), kPrefixBytes);
  EXPECT_GT(gpu.write_p50_seconds(), 0);
}

TEST_F(GpuBlocksTest, ADiskBlockComesToTheGpuByWayOfHostMemoryEvenAfterKill9) {
  ASSERT_EQ(worker_.Put(kPrefix, through_gpu_), kPrefix.count);
  ASSERT_TRUE(agent_.AwaitOffloaded());
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(worker_.AwaitConnected());
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_),
              AllOf(SizeIs(kPrefix.count), Each(BlockSource::kDisk)));
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_), AllOf(SizeIs(kPrefix.count), Each(BlockSource::kGpu)));
}

// The new agent has made another pool. The worker may finish reading the slots that it held in the
// old pool, and no slot of the old pool is used again.
TEST_F(GpuBlocksTest, AWorkerThatOutlivesItsAgentWorksInTheNextOnesPool) {
  ASSERT_EQ(worker_.Put(kPrefix, through_gpu_), kPrefix.count);
  OnboardedBlocks held = worker_.Hold(kPrefix, to_gpu_);
  ASSERT_EQ(held.size(), kPrefix.count);
  const std::weak_ptr<const Mapping> old_pool = worker_.client().gpu_memory()->mapping;
  agent_.Kill();
  ASSERT_EQ(agent_.Start().status(), absl::OkStatus());
  ASSERT_TRUE(Await(absl::Seconds(10), [&] { return worker_.client().Stats().sessions == 2; }));
  EXPECT_FALSE(held.valid());
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).used_bytes(), 0);

  // One slot stays free: the agent gives one back at any time when none is.
  const Blocks more = {.first = 200, .count = 15};
  EXPECT_EQ(worker_.Put(more, through_gpu_), more.count);
  EXPECT_THAT(worker_.Get(more, to_gpu_), AllOf(SizeIs(more.count), Each(BlockSource::kGpu)));
  EXPECT_TRUE(worker_.Proves(held, kPrefix.first)) << "no slot of the old pool was written";
  EXPECT_FALSE(old_pool.expired());
  held.Release();
  held = {};
  EXPECT_TRUE(Await(absl::Seconds(10), [&] { return old_pool.expired(); }))
      << "its memory goes with its last lease";
}

TEST_F(GpuBlocksTest, AFullPoolEvictsItsColdestAndKeepsWhatIsLeased) {
  ASSERT_EQ(worker_.Put({.first = 100, .count = 16}, through_gpu_), 16);
  const OnboardedBlocks held = worker_.Hold({.first = 100, .count = 4}, to_gpu_);
  ASSERT_EQ(held.size(), 4);
  EXPECT_EQ(worker_.Put({.first = 200, .count = 12}, through_gpu_), 12);
  const v1::TierReport gpu = agent_.TierStatus(Tier::kGpu);
  EXPECT_EQ(gpu.blocks() + gpu.evictions(), 16 + 12);
  EXPECT_THAT(gpu.blocks(), AnyOf(16, 15)) << "the agent keeps one slot free as soon as it can";
  EXPECT_TRUE(held.valid());
  EXPECT_TRUE(worker_.Proves(held, 100));
  EXPECT_EQ(worker_.Put({.first = 300, .count = 13}, through_gpu_), 12);
}

TEST_F(GpuBlocksTest, AnEvictedGpuTierIsRefilledFromHostMemory) {
  ASSERT_EQ(worker_.Put(kPrefix, through_gpu_), kPrefix.count);
  EXPECT_EQ(agent_.Evict(Tier::kGpu).evicted_blocks(), kPrefix.count);
  EXPECT_EQ(agent_.TierStatus(Tier::kGpu).used_bytes(), 0);
  EXPECT_THAT(worker_.Get(kPrefix, to_gpu_),
              AllOf(SizeIs(kPrefix.count), Each(BlockSource::kHost)));
}

TEST_F(GpuBlocksTest, ASpaceOfAnotherSizeUsesHostMemoryOnly) {
  TestWorker other({.socket_dir = agent_.socket_dir(), .block_bytes = 16384});
  EXPECT_EQ(other.Put(kPrefix), kPrefix.count);
  EXPECT_THAT(other.Get(kPrefix), SizeIs(kPrefix.count));
  EXPECT_THAT(other.Get(kPrefix, to_gpu_), IsEmpty());
}

}  // namespace
}  // namespace kvtier::testing
