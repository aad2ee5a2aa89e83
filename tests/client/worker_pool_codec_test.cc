// Worker lanes of spaces with a codec: encoded and decoded on the way, between engines that
// differ in the order of tokens and heads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "client/block_codec.h"
#include "client/lanes/job_outcomes.h"
#include "client/lanes/worker_pool.h"
#include "core/space_codec.h"
#include "tests/client/lanes_rig.h"
#include "tests/testing/kv_values.h"

namespace kvtier {
namespace {

using testing::BlocksOf;
using testing::GaussianValues;
using testing::KvValues;
using testing::LanesRig;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

constexpr kernels::KvShape kShape = {
    .layers = 3, .axes = 2, .tokens = 16, .kv_heads = 2, .head_dim = 32};
constexpr size_t kRow = kShape.head_dim;
constexpr size_t kPlane = size_t{kShape.tokens} * kShape.kv_heads * kRow;

// An engine's tensors, token by token or head by head.
class Engine {
 public:
  explicit Engine(KvOrder order) : order_(order) {}

  KvTensors tensors() {
    KvTensors tensors = memory_.tensors();
    tensors.order = order_;
    return tensors;
  }
  std::unique_ptr<WorkerPool> Register(LanesRig* rig, const SpaceSpec& spec) {
    auto pool = WorkerPool::Register(&rig->lanes(), tensors(), spec);
    EXPECT_EQ(pool.status(), absl::OkStatus());
    return pool.ok() ? *std::move(pool) : nullptr;
  }
  SpaceSpec Space(const std::string& codec, bool room_for_raw) {
    SpaceSpec spec = memory_.space();
    spec.dtype = "bfloat16";
    spec.kv_heads = kShape.kv_heads;
    spec.head_dim = kShape.head_dim;
    spec.tokens_per_block = kShape.tokens;
    spec.codec = codec;
    const auto sizes = SpaceCodec::Of(spec);
    EXPECT_EQ(sizes.status(), absl::OkStatus());
    spec.block_bytes = room_for_raw ? sizes->max_encoded_bytes() : sizes->encoded_bytes();
    return spec;
  }
  // `values` are in the order of the stored block, tokens first.
  void Compute(uint32_t slot, const KvValues& values) {
    Visit(slot, [&](uint16_t* row, size_t at) { std::memcpy(row, &values[at], 2 * kRow); });
  }
  KvValues Read(uint32_t slot) {
    KvValues values(kernels::Planes(kShape) * kPlane);
    Visit(slot, [&](const uint16_t* row, size_t at) { std::memcpy(&values[at], row, 2 * kRow); });
    return values;
  }

 private:
  template <typename Each>
  void Visit(uint32_t slot, Each each) {
    size_t at = 0;
    for (uint64_t plane = 0; plane < kernels::Planes(kShape); ++plane) {
      auto* const rows =
          reinterpret_cast<uint16_t*>(memory_.run(plane / 2, plane % 2, slot).data());
      for (size_t token = 0; token < kShape.tokens; ++token) {
        for (size_t head = 0; head < kShape.kv_heads; ++head, at += kRow) {
          const size_t row = order_ == KvOrder::kTokenHead ? token * kShape.kv_heads + head
                                                           : head * kShape.tokens + token;
          each(rows + row * kRow, at);
        }
      }
    }
  }

  const KvOrder order_;
  TensorMemory memory_{testing::PerLayerLayout,
                       {.layers = kShape.layers, .slots = 8, .run_bytes = 2 * kPlane}};
};

// What the CPU's codec makes of a block, there and back.
KvValues ThereAndBack(const SpaceSpec& spec, const KvValues& values) {
  const auto codec = *BlockCodec::For(spec);
  std::vector<std::byte> stored(spec.block_bytes);
  KvValues back(values.size());
  EXPECT_TRUE(codec.Encode(std::as_bytes(std::span(values)), stored).ok());
  EXPECT_EQ(codec.Decode(stored, std::as_writable_bytes(std::span(back))), absl::OkStatus());
  return back;
}

class WorkerPoolCodecTest : public ::testing::Test {
 protected:
  LanesRig rig_;
  Engine by_token_{KvOrder::kTokenHead};
  Engine by_head_{KvOrder::kHeadToken};
};

TEST_F(WorkerPoolCodecTest, EnginesThatDifferInOrderShareEncodedBlocks) {
  uint64_t first = 0;
  for (const char* codec : {"fp8_e4m3", "int8", "int4", "packed_exponents"}) {
    for (const bool room_for_raw : {false, true}) {
      const SpaceSpec spec = by_token_.Space(codec, room_for_raw);
      const auto there = by_token_.Register(&rig_, spec);
      const auto back = by_head_.Register(&rig_, spec);
      const std::vector<EngineKey> keys = TestKeys(first += 100, 3);
      for (uint32_t i = 0; i < 3; ++i) by_token_.Compute(i, GaussianValues(kShape, first + i, 30));
      ASSERT_EQ(BlocksOf(there->Offload({keys, Slots(0, 3)})), 3U) << codec;
      ASSERT_EQ(BlocksOf(back->Onboard({keys, Slots(5, 3)})), 3U) << codec;
      for (uint32_t i = 0; i < 3; ++i) {
        const KvValues values = GaussianValues(kShape, first + i, 30);
        EXPECT_EQ(by_head_.Read(5 + i), ThereAndBack(spec, values)) << codec << ", block " << i;
      }
    }
  }
}

TEST_F(WorkerPoolCodecTest, ABlockWithANanIsStoredRawWhereThereIsRoomAndElseNotAtAll) {
  for (const bool room_for_raw : {false, true}) {
    const SpaceSpec spec = by_token_.Space("int8", room_for_raw);
    const auto pool = by_token_.Register(&rig_, spec);
    const std::vector<EngineKey> keys = TestKeys(room_for_raw ? 100 : 200, 3);
    KvValues odd = GaussianValues(kShape, 2, 30);
    odd[77] = 0x7fc0;
    by_token_.Compute(0, GaussianValues(kShape, 1, 30));
    by_token_.Compute(1, odd);
    by_token_.Compute(2, GaussianValues(kShape, 3, 30));
    EXPECT_EQ(BlocksOf(pool->Offload({keys, Slots(0, 3)})), room_for_raw ? 3U : 2U);
    EXPECT_EQ(BlocksOf(pool->Onboard({keys, Slots(4, 3)})), room_for_raw ? 3U : 1U);
    EXPECT_EQ(by_token_.Read(5) == odd, room_for_raw);
  }
}

TEST(WorkerPoolWithoutKernelsTest, ASpaceThatEncodesIsRefused) {
  LanesRig rig({.kernels = false});
  Engine engine(KvOrder::kTokenHead);
  const SpaceSpec spec = engine.Space("int8", false);
  const auto pool = WorkerPool::Register(&rig.lanes(), engine.tensors(), spec);
  EXPECT_EQ(pool.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(pool.status().message().find("codec is \"int8\""), absl::string_view::npos);
}

// Runs of 1,536 bytes, for which kernels would be taken.
TEST(WorkerPoolWithoutKernelsTest, SmallRunsGoByTheCopyEngine) {
  for (const bool kernels : {true, false}) {
    LanesRig rig({.kernels = kernels});
    TensorMemory memory(testing::PerLayerLayout,
                        {.layers = 8, .slots = 32, .run_bytes = 1536, .start = 64});
    const auto pool = rig.Register(&memory);
    for (uint32_t slot = 0; slot < 16; ++slot) memory.Compute(slot, slot);
    ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 16), Slots(0, 16)})), 16U);
    ASSERT_EQ(
        BlocksOf(pool->Onboard({TestKeys(1, 16), Slots(16, 16)}, {.order = PlanOrder::kLayerWise})),
        16U);
    for (uint32_t slot = 0; slot < 16; ++slot) EXPECT_TRUE(memory.Holds(16 + slot, slot)) << slot;
  }
}

TEST_F(WorkerPoolCodecTest, NothingIsPublishedWhereNoBlockCanBeStored) {
  const auto pool = by_token_.Register(&rig_, by_token_.Space("fp8_e4m3", false));
  KvValues odd = GaussianValues(kShape, 2, 30);
  odd[0] = 0xff80;
  by_token_.Compute(0, odd);
  EXPECT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 0U);
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
}

TEST_F(WorkerPoolCodecTest, AllLayersOfAnEncodingAreThereAtTheEnd) {
  const SpaceSpec spec = by_token_.Space("int8", false);
  const auto pool = by_token_.Register(&rig_, spec);
  by_token_.Compute(0, GaussianValues(kShape, 1, 30));
  ASSERT_EQ(BlocksOf(pool->Offload({TestKeys(1, 1), Slots(0, 1)})), 1U);
  const auto job = pool->Onboard({TestKeys(1, 1), Slots(4, 1)}, {.order = PlanOrder::kLayerWise});
  ASSERT_EQ(BlocksOf(job), 1U);
  EXPECT_EQ((*job)->layers_ready(), kShape.layers);
  const LayerMark mark = (*job)->mark(kShape.layers);
  EXPECT_GE(mark.word->load(), mark.value);
  EXPECT_EQ(by_token_.Read(4), ThereAndBack(spec, GaussianValues(kShape, 1, 30)));
}

TEST_F(WorkerPoolCodecTest, OutcomesAreFoundByTheNumberOfTheBlockInItsJob) {
  rig_.OnDevice([](EmulatedDevice& device) {
    const std::vector<size_t> ends = {3, 5, 6};
    const auto outcomes = JobOutcomes::Create(&device, ends);
    ASSERT_EQ(outcomes.status(), absl::OkStatus());
    for (size_t block = 0; block < 6; ++block) EXPECT_EQ((*outcomes)->of(block).bytes, 0U);
    (*outcomes)->of_batch(0)->codecs[2].bytes = 12;
    (*outcomes)->of_batch(1)->codecs[0].bytes = 13;
    (*outcomes)->of_batch(2)->codecs[0].bytes = 15;
    EXPECT_EQ((*outcomes)->of(2).bytes, 12U);
    EXPECT_EQ((*outcomes)->of(3).bytes, 13U);
    EXPECT_EQ((*outcomes)->of(5).bytes, 15U);
    device.Lose();
    EXPECT_EQ(JobOutcomes::Create(&device, ends).status().code(), absl::StatusCode::kUnavailable);
  });
}

}  // namespace
}  // namespace kvtier
