// Tests lanes of host memory in spaces with a codec: blocks are encoded out of an engine's tensors
// and decoded into them, whatever their layout, and unproven bytes never reach the engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "tests/client/codec_tensors.h"
#include "tests/client/host_rig.h"
#include "tests/testing/kv_values.h"

namespace kvtier {
namespace {

using testing::CodecTensors;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::EndOf;
using testing::Eventually;
using testing::GaussianValues;
using ::testing::HasSubstr;
using testing::HostRig;
using testing::kCodecShape;
using testing::KvValues;
using testing::ResultsOf;
using testing::Slots;
using testing::TestKeys;
using testing::ThereAndBack;

constexpr const char* kCodecs[] = {"fp8_e4m3", "int8", "packed_exponents"};

class HostLanesCodecTest : public ::testing::Test {
 protected:
  std::unique_ptr<HostLanes> Open(CodecTensors* tensors, const SpaceSpec& spec) {
    const SpaceHandle space = *rig_.client().RegisterSpace(spec);
    auto lanes = HostLanes::Open(&rig_.client(), space, tensors->tensors());
    EXPECT_EQ(lanes.status(), absl::OkStatus());
    return lanes.ok() ? *std::move(lanes) : nullptr;
  }
  absl::Status Refusal(CodecTensors* tensors, const SpaceSpec& spec) {
    const auto space = rig_.client().RegisterSpace(spec);
    if (!space.ok()) return space.status();
    return HostLanes::Open(&rig_.client(), *space, tensors->tensors()).status();
  }

  HostRig rig_;
};

TEST_F(HostLanesCodecTest, BlocksOfEveryLayoutComeBackInEveryOtherAsTheCodecMakesThem) {
  uint64_t first = 0;
  for (const testing::LayoutMaker from : testing::kLayouts) {
    for (const testing::LayoutMaker to : testing::kLayouts) {
      for (const KvOrder order : {KvOrder::kTokenHead, KvOrder::kHeadToken}) {
        first += 100;
        CodecTensors source(KvOrder::kTokenHead, 8, from);
        CodecTensors target(order, 8, to);
        if (source.shape().axes != target.shape().axes) continue;
        const SpaceSpec spec =
            source.Space(kCodecs[first / 100 % std::size(kCodecs)], first % 200 == 0);
        const auto there = Open(&source, spec);
        const auto back = Open(&target, spec);
        const std::vector<uint32_t> out = {6, 1};
        const std::vector<uint32_t> in = {0, 7};
        const auto values = [&](size_t i) { return GaussianValues(source.shape(), first + i, 30); };
        for (size_t i = 0; i < 2; ++i) source.Compute(out[i], values(i));
        const auto before = source.memory().bytes();
        const std::vector<std::byte> copy(before.begin(), before.end());
        EXPECT_THAT(ResultsOf(there->Offload(TestKeys(first, 2), {}, out)), Each(true));
        EXPECT_THAT(ResultsOf(back->Onboard(TestKeys(first, 2), in)), Each(true));
        EXPECT_TRUE(std::ranges::equal(source.memory().bytes(), copy));
        CodecTensors expected(order, 8, to);
        for (size_t i = 0; i < 2; ++i) expected.Compute(in[i], ThereAndBack(spec, values(i)));
        EXPECT_TRUE(std::ranges::equal(target.memory().bytes(), expected.memory().bytes()))
            << source.memory().layout().name << " to " << target.memory().layout().name << ", "
            << spec.codec;
      }
    }
  }
}

TEST_F(HostLanesCodecTest, WhatIsStoredIsTheCodecsOwnEncodingAndSmaller) {
  for (const char* codec : kCodecs) {
    CodecTensors tensors(KvOrder::kHeadToken);
    const SpaceSpec spec = tensors.Space(codec, false);
    const auto lanes = Open(&tensors, spec);
    const KvValues values = GaussianValues(kCodecShape, 1, 30);
    tensors.Compute(3, values);
    ASSERT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 1), {}, Slots(3, 1))), ElementsAre(true));
    const OnboardedBlocks hit =
        *rig_.client().Onboard(*rig_.client().RegisterSpace(spec), TestKeys(1, 1));
    ASSERT_EQ(hit.size(), 1U);
    std::vector<std::byte> encoded(spec.block_bytes);
    ASSERT_TRUE(BlockCodec::For(spec)->Encode(std::as_bytes(std::span(values)), encoded).ok());
    EXPECT_TRUE(std::ranges::equal(hit.bytes(0), encoded)) << codec;
    EXPECT_LT(spec.block_bytes, values.size() * 2) << codec;
    const HostCopyStats stats = lanes->StatsOf(HostDirection::kOffload);
    EXPECT_EQ(stats.bytes, values.size() * 2) << "the engine's bytes";
  }
}

TEST_F(HostLanesCodecTest, ABlockWithANanIsStoredRawWhereThereIsRoomAndElseNotAtAll) {
  for (const bool room_for_raw : {false, true}) {
    CodecTensors tensors(KvOrder::kTokenHead);
    const auto lanes = Open(&tensors, tensors.Space("int8", room_for_raw));
    KvValues odd = GaussianValues(kCodecShape, 2, 30);
    odd[77] = 0x7fc0;
    for (uint32_t slot = 0; slot < 3; ++slot) {
      tensors.Compute(slot, slot == 1 ? odd : GaussianValues(kCodecShape, slot, 30));
    }
    const auto keys = TestKeys(room_for_raw ? 100 : 200, 3);
    EXPECT_THAT(ResultsOf(lanes->Offload(keys, {}, Slots(0, 3))),
                ElementsAre(true, room_for_raw, true));
    EXPECT_EQ(lanes->StatsOf(HostDirection::kOffload).failed_blocks, room_for_raw ? 0U : 1U);
    EXPECT_THAT(ResultsOf(lanes->Onboard(keys, Slots(4, 3))),
                ElementsAre(true, room_for_raw, room_for_raw))
        << "the leading run";
    EXPECT_EQ(tensors.Read(5) == odd, room_for_raw);
    EXPECT_TRUE(rig_.HoldsNothing());
  }
}

TEST_F(HostLanesCodecTest, NothingIsPublishedWhereNoBlockCanBeStored) {
  CodecTensors tensors(KvOrder::kTokenHead);
  const auto lanes = Open(&tensors, tensors.Space("packed_exponents", false));
  tensors.Compute(0, KvValues(RawBytes(kCodecShape) / 2, 0xff80));
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 1), {}, Slots(0, 1))), ElementsAre(false));
  EXPECT_EQ(rig_.agent().Counts().blocks, 0U);
  EXPECT_TRUE(rig_.HoldsNothing());
}

// A changed code decodes to some other value, so only the sum reveals it.
TEST_F(HostLanesCodecTest, ADamagedEncodingNeverReachesTheEngineAndTheOthersArrive) {
  for (const char* codec : kCodecs) {
    CodecTensors tensors(KvOrder::kHeadToken);
    const SpaceSpec spec = tensors.Space(codec, false);
    const auto lanes = Open(&tensors, spec);
    const auto values = [](uint64_t i) { return GaussianValues(kCodecShape, i, 30); };
    for (uint32_t slot = 0; slot < 3; ++slot) tensors.Compute(slot, values(slot));
    const KvValues before = values(99);
    tensors.Compute(5, before);
    ASSERT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 3), {}, Slots(0, 3))), Each(true));
    {
      const OnboardedBlocks hit =
          *rig_.client().Onboard(*rig_.client().RegisterSpace(spec), TestKeys(1, 3));
      const size_t size = hit.bytes(1).size();
      auto bytes = *rig_.client().host_memory().write->Write(hit.offset(1), size);
      bytes[size / 2] ^= std::byte{1};
    }
    const auto job = lanes->Onboard(TestKeys(1, 3), Slots(4, 3));
    EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT((*job)->results(), ElementsAre(true, false, true));
    EXPECT_EQ(tensors.Read(4), ThereAndBack(spec, values(0)));
    EXPECT_EQ(tensors.Read(5), before) << codec << ": as it was";
    EXPECT_EQ(tensors.Read(6), ThereAndBack(spec, values(2)));
    EXPECT_EQ(lanes->StatsOf(HostDirection::kOnboard).failed_blocks, 1U);
  }
  EXPECT_TRUE(
      Eventually([this] { return rig_.agent().Counts().damage_reports == std::size(kCodecs); }));
}

// The sum of the wrong bytes is right, because another worker wrote them into the slot itself.
TEST_F(HostLanesCodecTest, WhatIsNoEncodingOfTheSpaceNeverReachesTheEngine) {
  CodecTensors tensors(KvOrder::kTokenHead);
  const SpaceSpec spec = tensors.Space("fp8_e4m3", false);
  const auto lanes = Open(&tensors, spec);
  const SpaceHandle space = *rig_.client().RegisterSpace(spec);
  ReservedBlocks put = *rig_.client().Reserve(space, TestKeys(1, 1));
  const std::vector<std::byte> bytes(spec.block_bytes, std::byte{7});
  const ConstPiece whole = bytes;
  ASSERT_EQ(put.CopyIn(0, {&whole, 1}), absl::OkStatus());
  ASSERT_EQ(put.Commit(), 1U);
  const KvValues before = GaussianValues(kCodecShape, 9, 30);
  tensors.Compute(2, before);
  const auto job = lanes->Onboard(TestKeys(1, 1), Slots(2, 1));
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string((*job)->status().message()), HasSubstr("no encoding of codec fp8_e4m3"));
  EXPECT_THAT((*job)->results(), ElementsAre(false));
  EXPECT_EQ(tensors.Read(2), before);
}

TEST_F(HostLanesCodecTest, WhatTheCodecCannotIsRefusedNamingFieldAndValue) {
  CodecTensors tensors(KvOrder::kTokenHead);
  const SpaceSpec good = tensors.Space("int8", false);
  SpaceSpec spec = good;
  spec.dtype = "float32";
  EXPECT_THAT(std::string(Refusal(&tensors, spec).message()),
              HasSubstr("dtype \"float32\"; codec int8 is for bfloat16"));
  spec = good;
  spec.block_bytes += 16;
  EXPECT_THAT(std::string(Refusal(&tensors, spec).message()), HasSubstr("block_bytes is"));
  CodecTensors latent(KvOrder::kTokenHead, 8, testing::LatentLayout);
  EXPECT_THAT(std::string(Refusal(&latent, good).message()), HasSubstr("axes is 2"));
  CodecTensors fused(KvOrder::kTokenHead, 8, testing::FusedLayout);
  KvTensors odd = fused.tensors();
  odd.run_bytes -= 64;
  const SpaceHandle space = *rig_.client().RegisterSpace(good);
  EXPECT_THAT(std::string(HostLanes::Open(&rig_.client(), space, odd).status().message()),
              HasSubstr("row_bytes is 64; must be so that run_bytes of the geometry, 4032"));
}

}  // namespace
}  // namespace kvtier
