#include "client/lanes/worker_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <string>

#include "tests/client/lanes_rig.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::EmulatedKernel;
using testing::FaultyDevice;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LanesRig;
using testing::LayoutSize;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

constexpr LayoutSize kSmall = {.layers = 3, .slots = 8, .run_bytes = 1536, .start = 64};
// A block has 128 KiB in each layer, so eight blocks have 1 MiB. The test waits for two layers
// together.
constexpr LayoutSize kLarge = {.layers = 8, .slots = 16, .run_bytes = 64 << 10, .start = 0};

// With more timer slack Linux wakes a thread up to 50 us late, and the link is idle (lane_depth.h).
TEST(WorkerLanesTest, TheThreadThatPollsIsWokenInTime) {
  LanesRig rig;
  EXPECT_EQ(rig.lanes().On([] { return prctl(PR_GET_TIMERSLACK); }), 1);
}

TEST(WorkerPoolTest, BlocksOfOneLayoutComeBackInEveryOtherAndNothingElseIsTouched) {
  LanesRig rig;
  uint64_t first = 0;
  for (const testing::LayoutMaker from : testing::kLayouts) {
    for (const testing::LayoutMaker to : testing::kLayouts) {
      TensorMemory source(from, kSmall);
      TensorMemory target(to, kSmall);
      if (source.layout().geometry.axes != target.layout().geometry.axes) continue;
      const auto there = rig.Register(&source);
      const auto back = rig.Register(&target);
      const std::vector<EngineKey> keys = TestKeys(first += 100, 3);
      const std::vector<uint32_t> out = {6, 1, 2};
      const std::vector<uint32_t> in = {0, 7, 3};
      for (size_t i = 0; i < 3; ++i) source.Compute(out[i], i);
      const std::vector<std::byte> before(source.bytes().begin(), source.bytes().end());
      EXPECT_EQ(BlocksOf(there->Offload({keys, out})), 3U) << source.layout().name;
      EXPECT_EQ(BlocksOf(back->Onboard({keys, in})), 3U) << target.layout().name;
      EXPECT_TRUE(std::ranges::equal(source.bytes(), before));
      // The expected tensors are the same, except for the three blocks.
      TensorMemory expected(to, kSmall);
      for (size_t i = 0; i < 3; ++i) expected.Compute(in[i], i);
      EXPECT_TRUE(std::ranges::equal(target.bytes(), expected.bytes()))
          << source.layout().name << " to " << target.layout().name;
    }
  }
}

TEST(WorkerPoolTest, OnlyTheLeadingRunComesAndAMissIsNoError) {
  LanesRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto pool = rig.Register(&memory);
  for (uint32_t slot = 0; slot < 2; ++slot) memory.Compute(slot, slot);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 2), Slots(0, 2)})), 2U);
  EXPECT_EQ(BlocksOf(pool->Onboard({TestKeys(1, 4), Slots(4, 4)})), 2U);
  EXPECT_TRUE(memory.Holds(4, 0) && memory.Holds(5, 1));
  EXPECT_FALSE(memory.Holds(6, 0));
  EXPECT_EQ(BlocksOf(pool->Onboard({TestKeys(50, 2), Slots(6, 2)})), 0U);
  EXPECT_EQ(BlocksOf(pool->Onboard({})), 0U);
  EXPECT_EQ(BlocksOf(pool->Offload({})), 0U);
}

TEST(WorkerPoolTest, WhatIsCachedAlreadyIsNotCopiedAgain) {
  LanesRig rig;
  TensorMemory memory(testing::FusedLayout, kSmall);
  const auto pool = rig.Register(&memory);
  memory.Compute(0, 7);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 1U);
  memory.Compute(0, 8);
  memory.Compute(1, 9);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 2), Slots(0, 2)})), 1U);
  EXPECT_EQ(BlocksOf(pool->Onboard({TestKeys(1, 2), Slots(2, 2)})), 2U);
  EXPECT_TRUE(memory.Holds(2, 7) && memory.Holds(3, 9));
}

// SteppedClock is a device's time that advances only when the test says so.
class SteppedClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::UnixEpoch() + absl::Nanoseconds(now_.load()); }
  void Pass(absl::Duration time) { now_ += absl::ToInt64Nanoseconds(time); }

 private:
  std::atomic<int64_t> now_ = 1;
};

// Two layers of eight blocks are about 40 us on the link.
TEST(WorkerPoolTest, LayersBecomeReadyOneByOneAndEachHoldsItsBytes) {
  SteppedClock time;
  LanesRig rig({}, {}, &time);
  const auto step = [&] {
    time.Pass(absl::Microseconds(5));
    rig.lanes().Poll();
    rig.OnDevice([](FaultyDevice&) {});  // The device has been polled after this.
  };
  TensorMemory memory(testing::PerLayerLayout, kLarge);
  const auto pool = rig.Register(&memory);
  for (uint32_t slot = 0; slot < 8; ++slot) memory.Compute(slot, slot);
  const auto offload = *pool->Offload({TestKeys(1, 8), Slots(0, 8)});
  while (!offload->done()) step();
  ASSERT_EQ(offload->blocks(), 8U);
  const auto job = pool->Onboard({TestKeys(1, 8), Slots(8, 8)}, {.order = PlanOrder::kLayerWise});
  ASSERT_TRUE(job.ok()) << job.status();
  uint32_t ready = 0;
  for (bool done = false; !done; step()) {
    done = (*job)->done();
    const uint32_t now = (*job)->layers_ready();
    ASSERT_GE(now, ready);
    ASSERT_LE(now, ready + 2) << "two layers are a batch, and wait for no other";
    ASSERT_LE(now, (*job)->layers_submitted());
    if (now == ready) continue;
    ASSERT_EQ((*job)->coming(), 8U);
    for (uint32_t i = 0; i < 8; ++i) {
      ASSERT_TRUE(memory.Holds(8 + i, i, ready, now - ready))
          << "layers " << ready << " to " << now;
    }
    ready = now;
  }
  EXPECT_EQ(BlocksOf(job), 8U);
  EXPECT_EQ((*job)->layers_ready(), kLarge.layers);
}

// A wait for the mark of a submitted layer depends on the device alone.
TEST(WorkerPoolTest, LayersAreSubmittedAheadOfTheirBytes) {
  LanesRig rig;
  TensorMemory memory(testing::PerLayerLayout, kLarge);
  const auto pool = rig.Register(&memory);
  for (uint32_t slot = 0; slot < 8; ++slot) memory.Compute(slot, slot);
  ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 8), Slots(0, 8)})), 8U);
  std::shared_ptr<LaneJob> job;
  rig.OnDevice([&](FaultyDevice& device) {  // Keeps the job from beginning meanwhile.
    device.Stall(Lane::kOnboard);
    job = *pool->Onboard({TestKeys(1, 8), Slots(8, 8)}, {.order = PlanOrder::kLayerWise});
    EXPECT_EQ(job->layers_submitted(), 0U);
    EXPECT_FALSE(job->WaitSubmitted(1, absl::ZeroDuration()));
  });
  // Batches of two layers are in flight, and all others wait outside.
  constexpr uint32_t kInFlight = 2 * kMaxBatchesInFlight;
  static_assert(kInFlight < kLarge.layers);
  EXPECT_TRUE(job->WaitSubmitted(kInFlight, testing::Patience(testing::kLong)));
  EXPECT_FALSE(job->WaitSubmitted(kInFlight + 1, absl::Milliseconds(20)));
  EXPECT_EQ(job->layers_ready(), 0U);
  rig.OnDevice([](FaultyDevice& device) { device.Resume(Lane::kOnboard); });
  EXPECT_TRUE(job->WaitSubmitted(kLarge.layers, testing::Patience(testing::kLong)));
  EXPECT_EQ(BlocksOf(absl::StatusOr<std::shared_ptr<LaneJob>>(job)), 8U);
  EXPECT_EQ(job->layers_ready(), kLarge.layers);
}

TEST(WorkerPoolTest, AJobThatIsNotLayerWiseTellsNoLayers) {
  LanesRig rig;
  TensorMemory memory(testing::FusedLayout, kSmall);
  const auto pool = rig.Register(&memory);
  memory.Compute(0, 7);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 1U);
  const auto job = pool->Onboard({TestKeys(1, 1), Slots(1, 1)});
  EXPECT_EQ(BlocksOf(job), 1U);
  EXPECT_EQ((*job)->layers_ready(), 0U);
  EXPECT_EQ((*job)->layers_submitted(), 0U);
  EXPECT_EQ((*job)->coming(), 1U);
}

// Compute writes the blocks, and later attends to each layer after its mark; the checker sees every
// access of the lanes and of compute.
TEST(WorkerPoolTest, ComputeOnTheDeviceWaitsForALayerAndNothingRaces) {
  AccessChecker checker(4096);
  EmulatedDevice::Options options;
  options.seed = 5;
  options.checker = &checker;
  LanesRig rig(options);
  TensorMemory memory(testing::TwinTensorsLayout, kLarge);
  const auto pool = rig.Register(&memory);
  const std::shared_ptr<const SignalPage> page = *SignalPage::Create();
  rig.OnDevice([&](FaultyDevice& device) {
    ASSERT_EQ(device.Pin(page->bytes()), absl::OkStatus());
    EmulatedKernel compute{.run = absl::Milliseconds(2)};
    for (uint32_t slot = 0; slot < 8; ++slot) {
      for (uint32_t layer = 0; layer < kLarge.layers; ++layer) {
        for (uint32_t axis = 0; axis < 2; ++axis) {
          compute.writes.push_back(memory.run(layer, axis, slot));
        }
      }
    }
    compute.body = [&memory] {
      for (uint32_t slot = 0; slot < 8; ++slot) memory.Compute(slot, slot);
    };
    ASSERT_TRUE(device.Launch(std::move(compute)).ok());
    ASSERT_TRUE(device.Signal(Lane::kCompute, page->word(0), 1).ok());
  });
  const OffloadOptions behind = {.after = {.word = page->word(0), .value = 1, .keep = page}};
  ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 8), Slots(0, 8)}, behind)), 8U);

  const auto job = pool->Onboard({TestKeys(1, 8), Slots(8, 8)}, {.order = PlanOrder::kLayerWise});
  ASSERT_TRUE(job.ok()) << job.status();
  std::atomic<uint32_t> right = 0;
  rig.OnDevice([&](FaultyDevice& device) {
    for (uint32_t layer = 0; layer < kLarge.layers; ++layer) {
      const LayerMark mark = (*job)->mark(layer + 1);
      ASSERT_TRUE(device.Await(Lane::kCompute, mark.word, mark.value).ok());
      EmulatedKernel attention{.run = absl::Microseconds(1)};
      for (uint32_t i = 0; i < 8; ++i) attention.reads.push_back(memory.run(layer, 1, 8 + i));
      attention.body = [&memory, &right, layer] {
        bool all = true;
        for (uint32_t i = 0; i < 8; ++i) all &= memory.Holds(8 + i, i, layer, 1);
        right += all ? 1 : 0;
      };
      ASSERT_TRUE(device.Launch(std::move(attention)).ok());
    }
    ASSERT_TRUE(device.Signal(Lane::kCompute, page->word(1), 1).ok());
  });
  EXPECT_EQ(BlocksOf(job), 8U);
  EXPECT_TRUE(testing::Eventually([&] {
    rig.lanes().Poll();
    return page->word(1)->load() == 1;
  }));
  EXPECT_EQ(right, kLarge.layers);
  rig.OnDevice([&](FaultyDevice& device) {
    ASSERT_EQ(device.Unpin(page->bytes()), absl::OkStatus());
    EXPECT_THAT(checker.races(), IsEmpty());
  });
}

// The offload is the same, but without the wait of OffloadOptions::after.
TEST(WorkerPoolTest, AnOffloadThatDoesNotWaitForItsComputeIsARace) {
  AccessChecker checker(4096);
  EmulatedDevice::Options options;
  options.checker = &checker;
  LanesRig rig(options);
  TensorMemory memory(testing::LatentLayout, kSmall);
  const auto pool = rig.Register(&memory);
  rig.OnDevice([&](FaultyDevice& device) {
    device.Stall(Lane::kCompute);
    EmulatedKernel compute{.run = absl::Microseconds(1)};
    compute.writes.push_back(memory.run(0, 0, 0));
    ASSERT_TRUE(device.Launch(std::move(compute)).ok());
  });
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 1U);
  rig.OnDevice([&](FaultyDevice& device) {
    device.Resume(Lane::kCompute);
    ASSERT_EQ(device.Drain(absl::Seconds(1)), absl::OkStatus());
    EXPECT_EQ(checker.races().size(), 1U);
  });
}

TEST(WorkerPoolTest, AMissReleasesWhoWaitsForItsLayers) {
  LanesRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto pool = rig.Register(&memory);
  // There are more jobs than words: each word serves one job after another.
  for (int i = 0; i < 70; ++i) {
    const auto job = pool->Onboard({TestKeys(1, 1), Slots(0, 1)}, {.order = PlanOrder::kLayerWise});
    EXPECT_EQ(BlocksOf(job), 0U);
    EXPECT_EQ((*job)->layers_ready(), 0U);
    EXPECT_EQ((*job)->layers_submitted(), kSmall.layers) << "raised by the host";
    const LayerMark mark = (*job)->mark(kSmall.layers);
    EXPECT_TRUE(testing::Eventually([&] { return mark.word->load() >= mark.value; }));
  }
}

TEST(WorkerPoolTest, WhatCannotBeIsRefusedNamingIt) {
  LanesRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto pool = rig.Register(&memory);
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  const auto expect = [](const absl::Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  };
  expect(pool->Offload({keys, Slots(0, 1)}).status(), "2 keys and 1 slots");
  expect(pool->Onboard({keys, Slots(7, 2)}).status(), "slots[1] is 8; must be below 8");
  expect(pool->Onboard({keys, std::vector<uint32_t>{3, 3}}).status(), "slots has 3 twice");
  expect(pool->Offload({keys, Slots(0, 2)}, {.mark_timeout = absl::ZeroDuration()}).status(),
         "mark_timeout is 0");
  const std::vector<EngineKey> many = TestKeys(1, Client::kMaxKeys + 1);
  expect(pool->Onboard({many, std::vector<uint32_t>(many.size())}).status(), "8193 keys");
  KvTensors tensors = memory.tensors();
  tensors.slots = 9;
  expect(WorkerPool::Register(&rig.lanes(), tensors, memory.space()).status(), "bases");
}

}  // namespace
}  // namespace kvtier
