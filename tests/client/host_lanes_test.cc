#include "client/host_lanes/host_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/reuse_hint.h"
#include "tests/client/host_rig.h"

namespace kvtier {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::HostRig;
using ::testing::IsEmpty;
using testing::LayoutSize;
using testing::ResultsOf;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;

constexpr LayoutSize kSmall = {.layers = 3, .slots = 8, .run_bytes = 1536, .start = 64};

TEST(HostLanesTest, BlocksOfOneLayoutComeBackInEveryOtherAndNothingElseIsTouched) {
  HostRig rig;
  uint64_t first = 0;
  for (const testing::LayoutMaker from : testing::kLayouts) {
    for (const testing::LayoutMaker to : testing::kLayouts) {
      TensorMemory source(from, kSmall);
      TensorMemory target(to, kSmall);
      if (source.layout().geometry.axes != target.layout().geometry.axes) continue;
      const auto there = rig.Open(&source);
      const auto back = rig.Open(&target, {.threads = 2});
      const std::vector<EngineKey> keys = TestKeys(first += 100, 3);
      const std::vector<uint32_t> out = {6, 1, 2};
      const std::vector<uint32_t> in = {0, 7, 3};
      for (size_t i = 0; i < 3; ++i) source.Compute(out[i], i);
      const std::vector<std::byte> before(source.bytes().begin(), source.bytes().end());
      EXPECT_THAT(ResultsOf(there->Offload(keys, {}, out)), ElementsAre(true, true, true));
      EXPECT_THAT(ResultsOf(back->Onboard(keys, in)), ElementsAre(true, true, true));
      EXPECT_TRUE(std::ranges::equal(source.bytes(), before));
      TensorMemory expected(to, kSmall);
      for (size_t i = 0; i < 3; ++i) expected.Compute(in[i], i);
      EXPECT_TRUE(std::ranges::equal(target.bytes(), expected.bytes()))
          << source.layout().name << " to " << target.layout().name;
    }
  }
}

TEST(HostLanesTest, AHintGoesToTheAgentWithEachCallOfAJob) {
  HostRig rig({.most_leases = 3});
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  const ReuseHint stored = {.conversation = 5, .turn = 2, .priority = 7};
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 4), {}, Slots(0, 4), stored)), Each(true));
  EXPECT_EQ(rig.agent().Counts().hints, (std::vector<std::optional<ReuseHint>>{stored}));
  // The last of its calls requests the rest.
  const ReuseHint loaded = {.finish = FinishReason::kStop, .will_not_return = true};
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 4), Slots(4, 4), {}, loaded)), Each(true));
  EXPECT_EQ(rig.agent().Counts().hints, (std::vector<std::optional<ReuseHint>>{loaded}));
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 1), Slots(4, 1))), Each(true));
  EXPECT_EQ(rig.agent().Counts().hints, (std::vector<std::optional<ReuseHint>>{std::nullopt}));
}

TEST(HostLanesTest, ARunLongerThanTheRoomForItComesInSeveralCalls) {
  HostRig rig({.most_leases = 3});
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory, {.threads = 2});
  const std::vector<EngineKey> keys = TestKeys(1, 8);
  for (uint32_t i = 0; i < 8; ++i) memory.Compute(i, i);
  EXPECT_THAT(ResultsOf(lanes->Offload(keys, {}, Slots(0, 8))), Each(true));
  for (uint32_t i = 0; i < 8; ++i) memory.Compute(i, 99);
  EXPECT_THAT(ResultsOf(lanes->Onboard(keys, Slots(0, 8))), Each(true));
  for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(memory.Holds(i, i)) << i;
  EXPECT_TRUE(rig.HoldsNothing());
  // The rest is not requested when time is up.
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 5), Slots(0, 5), absl::ZeroDuration())),
              ElementsAre(true, true, true, false, false));
}

TEST(HostLanesTest, ACallThatFindsNoRoomIsTheLastOne) {
  HostRig rig({.most_leases = 0});
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 3), {}, Slots(0, 3))), Each(true));
  const size_t calls = rig.agent().Counts().calls;
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 3), Slots(0, 3))), Each(false));
  EXPECT_EQ(rig.agent().Counts().calls, calls + 1);
}

TEST(HostLanesTest, ViewsOfOneStorageAreRegisteredAsTheStorage) {
  HostRig rig;
  TensorMemory memory(testing::TwinTensorsLayout, kSmall);
  KvTensors tensors = memory.tensors();
  std::byte* const start = memory.bytes().data();
  for (TensorPlace& base : tensors.bases) {
    const auto offset = static_cast<uint64_t>(tensors.tensors[base.tensor].data() - start);
    base = {.tensor = 0, .offset = offset + base.offset};
  }
  tensors.tensors = {memory.bytes()};
  const auto lanes = *HostLanes::Open(&rig.client(), rig.SpaceOf(memory), tensors);
  memory.Compute(2, 7);
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 1), {}, Slots(2, 1))), ElementsAre(true));
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 1), Slots(5, 1))), ElementsAre(true));
  EXPECT_TRUE(memory.Holds(5, 7));
}

TEST(HostLanesTest, HeadsFirstIsAnotherSpace) {
  HostRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  KvTensors tensors = memory.tensors();
  tensors.order = KvOrder::kHeadToken;
  EXPECT_THAT(
      std::string(HostLanes::Open(&rig.client(), rig.SpaceOf(memory), tensors).status().message()),
      HasSubstr("layout is \"layer,kv,head,token,dim\"; must be the space's"));
  SpaceSpec spec = memory.space();
  spec.layout = SpaceLayout(KvAxes::kApart, KvOrder::kHeadToken);
  const SpaceHandle heads = *rig.client().RegisterSpace(spec);
  const auto lanes = *HostLanes::Open(&rig.client(), heads, tensors);
  const auto tokens = rig.Open(&memory);
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 1), {}, Slots(2, 1))), ElementsAre(true));
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 1), Slots(3, 1))), ElementsAre(true));
  EXPECT_THAT(ResultsOf(tokens->Onboard(TestKeys(1, 1), Slots(4, 1))), ElementsAre(false));
}

TEST(HostLanesTest, OnlyTheLeadingRunComesAndAMissIsNoError) {
  HostRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  for (uint32_t slot = 0; slot < 2; ++slot) memory.Compute(slot, slot);
  EXPECT_THAT(ResultsOf(lanes->Offload(TestKeys(1, 2), {}, Slots(0, 2))), Each(true));
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(1, 4), Slots(4, 4))),
              ElementsAre(true, true, false, false));
  EXPECT_TRUE(memory.Holds(4, 0) && memory.Holds(5, 1));
  EXPECT_FALSE(memory.Holds(6, 0));
  EXPECT_THAT(ResultsOf(lanes->Onboard(TestKeys(50, 2), Slots(6, 2))), Each(false));
  EXPECT_THAT(ResultsOf(lanes->Onboard({}, {})), IsEmpty());
  EXPECT_THAT(ResultsOf(lanes->Offload({}, {}, {})), IsEmpty());
  EXPECT_TRUE(rig.HoldsNothing());
}

TEST(HostLanesTest, WhatIsStoredAlreadyIsNotCopied) {
  HostRig rig;
  TensorMemory memory(testing::CrossLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  const std::vector<EngineKey> keys = TestKeys(1, 3);
  EXPECT_THAT(ResultsOf(lanes->Offload(std::span(keys).first(2), {}, Slots(0, 2))), Each(true));
  EXPECT_THAT(ResultsOf(lanes->Offload(keys, {}, Slots(0, 3))), Each(true));
  const HostCopyStats stats = lanes->StatsOf(HostDirection::kOffload);
  EXPECT_EQ(stats.blocks, 3U);
  EXPECT_EQ(stats.bytes, 3 * memory.layout().geometry.block_bytes());
  EXPECT_EQ(stats.failed_blocks, 0U);
  EXPECT_GE(stats.copying, absl::ZeroDuration());
}

TEST(HostLanesTest, WithoutRoomTheBlocksAreNotStoredAndTheSlotsAreFree) {
  HostRig rig({.reserve_state = 3});
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  const auto job = lanes->Offload(TestKeys(1, 2), {}, Slots(0, 2));
  EXPECT_THAT(ResultsOf(job), ElementsAre(false, false));
  EXPECT_TRUE((*job)->copied());
  EXPECT_TRUE(*lanes->AwaitCopied(Slots(0, 2), absl::ZeroDuration()));
}

struct Wrong {
  std::function<void(KvTensors*, SpaceSpec*)> change;
  std::string words;
};

TEST(HostLanesTest, WhatDoesNotFitIsRefusedNamingFieldAndValue) {
  const std::vector<Wrong> wrongs = {
      {[](KvTensors* t, SpaceSpec*) { t->tensors.clear(); }, "0 ranges"},
      {[](KvTensors* t, SpaceSpec*) { t->tensors[1] = t->tensors[0]; }, "overlaps"},
      {[](KvTensors* t, SpaceSpec*) { t->bases[4].tensor = 9; },
       "bases[4].tensor is 9; must be below 3"},
      {[](KvTensors* t, SpaceSpec*) { t->slots = 9; }, "bases[1] (layer 0, axis 1)"},
      {[](KvTensors* t, SpaceSpec*) { t->block_stride = 1535; }, "block_stride is 1535"},
      // Blocks share bytes, as tensors of one group do.
      {[](KvTensors* t, SpaceSpec*) { t->bases[1] = t->bases[0]; },
       "its runs must not overlap those of bases[0]"},
      {[](KvTensors*, SpaceSpec* s) { s->layers = 4; }, "layers is 3; must be the space's, 4"},
      {[](KvTensors*, SpaceSpec* s) { s->block_bytes = 9217; }, "block_bytes, 9217"},
      {[](KvTensors*, SpaceSpec* s) { s->any_length = true; }, "any_length"},
  };
  HostRig rig;
  for (const Wrong& wrong : wrongs) {
    TensorMemory memory(testing::PerLayerLayout, kSmall);
    KvTensors tensors = memory.tensors();
    SpaceSpec spec = memory.space();
    wrong.change(&tensors, &spec);
    const SpaceHandle space = *rig.client().RegisterSpace(spec);
    const absl::Status status = HostLanes::Open(&rig.client(), space, tensors).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong.words;
    EXPECT_THAT(std::string(status.message()), HasSubstr(wrong.words));
  }
}

TEST(HostLanesTest, CallsThatCannotBeNameWhat) {
  HostRig rig;
  TensorMemory memory(testing::PerLayerLayout, kSmall);
  const auto lanes = rig.Open(&memory);
  const auto words_of = [](const auto& result) { return std::string(result.status().message()); };
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  EXPECT_THAT(words_of(lanes->Offload(keys, {}, Slots(0, 1))), HasSubstr("2 keys for 1 blocks"));
  EXPECT_THAT(words_of(lanes->Offload(keys, {}, Slots(7, 2))),
              HasSubstr("blocks[1] is 8; must be below 8"));
  const std::vector<uint32_t> twice = {3, 3};
  EXPECT_THAT(words_of(lanes->Onboard(keys, twice)),
              HasSubstr("blocks[1] is 3 for the second time"));
  EXPECT_THAT(words_of(lanes->Onboard(keys, Slots(0, 2), absl::Seconds(-1))), HasSubstr("timeout"));
  EXPECT_THAT(words_of(lanes->AwaitCopied(Slots(8, 1), absl::ZeroDuration())),
              HasSubstr("blocks[0] is 8"));
  for (const size_t threads : {size_t{0}, kMaxHostThreads + 1}) {
    EXPECT_THAT(words_of(HostLanes::Open(&rig.client(), rig.SpaceOf(memory), memory.tensors(),
                                         {.threads = threads})),
                HasSubstr("threads is"));
  }
  EXPECT_THAT(words_of(HostLanes::Open(&rig.client(), SpaceHandle{9}, memory.tensors())),
              HasSubstr("space handle 9"));
}

}  // namespace
}  // namespace kvtier
