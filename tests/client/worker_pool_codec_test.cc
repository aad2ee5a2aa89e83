// Tests worker lanes in spaces with a codec: encoded and decoded on the way, between engines that
// differ in the order of tokens and heads.
#include <gtest/gtest.h>

#include "client/lanes/outcome_slab.h"
#include "client/lanes/worker_pool.h"
#include "tests/client/codec_tensors.h"
#include "tests/client/lanes_rig.h"
#include "tests/testing/kv_values.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::CodecTensors;
using testing::FaultyDevice;
using testing::GaussianValues;
using testing::kCodecShape;
using testing::KvValues;
using testing::LanesRig;
using testing::Slots;
using testing::TestKeys;
using testing::ThereAndBack;

class WorkerPoolCodecTest : public ::testing::Test {
 protected:
  LanesRig rig_;
  CodecTensors by_token_{KvOrder::kTokenHead};
  CodecTensors by_head_{KvOrder::kHeadToken};
};

TEST_F(WorkerPoolCodecTest, EnginesThatDifferInOrderShareEncodedBlocks) {
  uint64_t first = 0;
  for (const char* codec : {"fp8_e4m3", "int8", "packed_exponents"}) {
    for (const bool room_for_raw : {false, true}) {
      const SpaceSpec spec = by_token_.Space(codec, room_for_raw);
      const auto there = rig_.Register(by_token_.tensors(), spec);
      const auto back = rig_.Register(by_head_.tensors(), spec);
      const std::vector<EngineKey> keys = TestKeys(first += 100, 3);
      for (uint32_t i = 0; i < 3; ++i)
        by_token_.Compute(i, GaussianValues(kCodecShape, first + i, 30));
      ASSERT_EQ(BlocksOf(there->Offload({keys, Slots(0, 3)})), 3U) << codec;
      ASSERT_EQ(BlocksOf(back->Onboard({keys, Slots(5, 3)})), 3U) << codec;
      for (uint32_t i = 0; i < 3; ++i) {
        const KvValues values = GaussianValues(kCodecShape, first + i, 30);
        EXPECT_EQ(by_head_.Read(5 + i), ThereAndBack(spec, values)) << codec << ", block " << i;
      }
    }
  }
}

TEST_F(WorkerPoolCodecTest, ABlockWithANanIsStoredRawWhereThereIsRoomAndElseNotAtAll) {
  for (const bool room_for_raw : {false, true}) {
    const SpaceSpec spec = by_token_.Space("int8", room_for_raw);
    const auto pool = rig_.Register(by_token_.tensors(), spec);
    const std::vector<EngineKey> keys = TestKeys(room_for_raw ? 100 : 200, 3);
    KvValues odd = GaussianValues(kCodecShape, 2, 30);
    odd[77] = 0x7fc0;
    by_token_.Compute(0, GaussianValues(kCodecShape, 1, 30));
    by_token_.Compute(1, odd);
    by_token_.Compute(2, GaussianValues(kCodecShape, 3, 30));
    EXPECT_EQ(BlocksOf(pool->Offload({keys, Slots(0, 3)})), room_for_raw ? 3U : 2U);
    EXPECT_EQ(BlocksOf(pool->Onboard({keys, Slots(4, 3)})), room_for_raw ? 3U : 1U);
    EXPECT_EQ(by_token_.Read(5) == odd, room_for_raw);
  }
}

TEST_F(WorkerPoolCodecTest, NothingIsPublishedWhereNoBlockCanBeStored) {
  const auto pool = rig_.Register(by_token_.tensors(), by_token_.Space("fp8_e4m3", false));
  KvValues odd = GaussianValues(kCodecShape, 2, 30);
  odd[0] = 0xff80;
  by_token_.Compute(0, odd);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 0U);
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
}

TEST_F(WorkerPoolCodecTest, AllLayersOfAnEncodingAreThereAtTheEnd) {
  const SpaceSpec spec = by_token_.Space("int8", false);
  const auto pool = rig_.Register(by_token_.tensors(), spec);
  by_token_.Compute(0, GaussianValues(kCodecShape, 1, 30));
  ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 1U);
  const auto job = pool->Onboard({TestKeys(1, 1), Slots(4, 1)}, {.order = PlanOrder::kLayerWise});
  ASSERT_EQ(BlocksOf(job), 1U);
  EXPECT_EQ((*job)->layers_ready(), kCodecShape.layers);
  const LayerMark mark = (*job)->mark(kCodecShape.layers);
  EXPECT_GE(mark.word->load(), mark.value);
  EXPECT_EQ(by_token_.Read(4), ThereAndBack(spec, GaussianValues(kCodecShape, 1, 30)));
}

// The job has more batches than it has outcomes at a time, and each block must still get its own
// outcome.
TEST(WorkerPoolLongJobTest, ALongJobGoesInPartsAndLosesNoBlock) {
  constexpr size_t kBlocks = OutcomeSlab::kJobBatches * kMaxBatchBlocks + 100;
  constexpr size_t kOdd = kBlocks - 3;
  LanesRig rig({}, {.slots = kBlocks});
  CodecTensors tensors(KvOrder::kTokenHead, 2 * kBlocks);
  const SpaceSpec spec = tensors.Space("int8", false);
  const auto pool = rig.Register(tensors.tensors(), spec);
  const std::vector<size_t> watched = {0, 63, 64, kBlocks - 101, kBlocks - 100, kOdd - 1};
  for (const size_t i : watched) tensors.Compute(i, GaussianValues(kCodecShape, i, 30));
  KvValues odd = GaussianValues(kCodecShape, kOdd, 30);
  odd[5] = 0x7fc0;
  tensors.Compute(kOdd, odd);
  const std::vector<EngineKey> keys = TestKeys(1, kBlocks);
  EXPECT_EQ(BlocksOf(pool->Offload({keys, Slots(0, kBlocks)})), kBlocks - 1);
  EXPECT_EQ(BlocksOf(pool->Onboard({keys, Slots(kBlocks, kBlocks)})), kOdd) << "the leading run";
  for (const size_t i : watched) {
    const KvValues expected = ThereAndBack(spec, GaussianValues(kCodecShape, i, 30));
    EXPECT_EQ(tensors.Read(kBlocks + i), expected) << i;
  }
}

// A job pins nothing, because on a GPU pinning waits for running work, and so does unpinning.
TEST_F(WorkerPoolCodecTest, OutcomesAreOfOneSlabAndComeBackEmpty) {
  constexpr auto kOut = CopyDirection::kDeviceToHost;
  constexpr size_t kAll = OutcomeSlab::kJobs * OutcomeSlab::kJobBatches;
  rig_.OnDevice([&](FaultyDevice& device) {
    const auto slab = *OutcomeSlab::Pin(&device);
    device.Lose();  // A lost device pins nothing any more.
    EXPECT_EQ(OutcomeSlab::Pin(&device).status().code(), absl::StatusCode::kUnavailable);
    {
      const OutcomeSlab::Lent outcomes = *slab->Lend(kOut, kAll);
      outcomes.of(7)->codecs[0].bytes = 12;
      const absl::Status full = slab->Lend(kOut, 1).status();
      EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
      EXPECT_TRUE(slab->Lend(CopyDirection::kHostToDevice, 1).ok());
    }
    const OutcomeSlab::Lent again = *slab->Lend(kOut, kAll);
    for (size_t i = 0; i < kAll; ++i) ASSERT_EQ(again.of(i)->codecs[0].bytes, 0U) << i;
  });
}

}  // namespace
}  // namespace kvtier
