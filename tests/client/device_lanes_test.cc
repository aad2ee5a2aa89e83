// Tests DeviceLanes, which has the calls of host lanes, on an emulated device.
#include "client/device_lanes/device_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "core/reuse_hint.h"
#include "tests/client/codec_tensors.h"
#include "tests/client/host_rig.h"
#include "tests/testing/kv_values.h"
#include "tier_gpu/device/emulated_device.h"

namespace kvtier {
namespace {

using testing::CodecTensors;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::EndOf;
using testing::Eventually;
using testing::FakeAgent;
using testing::GaussianValues;
using ::testing::HasSubstr;
using testing::HostRig;
using testing::KvValues;
using testing::LayoutSize;
using testing::Patience;
using testing::ResultsOf;
using testing::Slots;
using testing::TensorMemory;
using testing::TestKeys;
using testing::ThereAndBack;

constexpr LayoutSize kSize = {.layers = 3, .slots = 16, .run_bytes = 1536, .start = 64};

class DeviceLanesTest : public ::testing::Test {
 protected:
  DeviceLanesTest() {
    for (uint32_t slot = 0; slot < 8; ++slot) memory_.Compute(slot, slot);
    lanes_ = Open(&memory_);
  }
  std::unique_ptr<DeviceLanes> Open(TensorMemory* memory) {
    return Open(rig_.SpaceOf(*memory), memory->tensors());
  }
  std::unique_ptr<DeviceLanes> Open(SpaceHandle space, const KvTensors& tensors) {
    auto device = LaneDevice::On(
        &rig_.client(),
        std::make_unique<EmulatedDevice>(&clock_, EmulatedDevice::Options{.kernels = true}),
        nullptr);
    auto lanes = DeviceLanes::Open(&rig_.client(), space, tensors, *std::move(device));
    EXPECT_EQ(lanes.status(), absl::OkStatus());
    return lanes.ok() ? *std::move(lanes) : nullptr;
  }
  auto Offload(size_t count = 3) {
    return lanes_->Offload(TestKeys(1, count), {}, Slots(0, count), {});
  }
  auto Onboard(size_t count = 3) {
    return lanes_->Onboard(TestKeys(1, count), Slots(8, count),
                           {.timeout = Patience(testing::kLong)});
  }

  MonotonicClock clock_;
  HostRig rig_;
  TensorMemory memory_{testing::PerLayerLayout, kSize};
  std::unique_ptr<DeviceLanes> lanes_;
};

TEST_F(DeviceLanesTest, BlocksComeBackAndWhatIsStoredAlreadyIsNotCopied) {
  EXPECT_THAT(ResultsOf(Offload(2)), ElementsAre(true, true));
  EXPECT_THAT(ResultsOf(Offload(3)), ElementsAre(true, true, true));
  EXPECT_THAT(ResultsOf(Onboard(4)), ElementsAre(true, true, true, false));
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(memory_.Holds(8 + i, i)) << i;
  for (const HostDirection direction : {HostDirection::kOffload, HostDirection::kOnboard}) {
    const HostCopyStats stats = lanes_->StatsOf(direction);
    EXPECT_EQ(stats.blocks, 3U);
    EXPECT_EQ(stats.bytes, 3 * memory_.layout().geometry.block_bytes());
    EXPECT_EQ(stats.failed_blocks, 0U);
    EXPECT_GT(stats.copying, absl::ZeroDuration());
  }
  EXPECT_TRUE(rig_.HoldsNothing());
}

TEST_F(DeviceLanesTest, HostLanesAndTheseShareBlocks) {
  const auto host = rig_.Open(&memory_);
  EXPECT_THAT(ResultsOf(Offload()), Each(true));
  EXPECT_THAT(ResultsOf(host->Onboard(TestKeys(1, 3), Slots(12, 3))), Each(true));
  EXPECT_TRUE(memory_.Holds(13, 1));
}

TEST_F(DeviceLanesTest, BlocksOfACodecAreThoseOfHostLanes) {
  uint64_t first = 0;
  for (const char* codec : {"fp8_e4m3", "int8", "packed_exponents"}) {
    CodecTensors tensors(KvOrder::kHeadToken);
    const SpaceSpec spec = tensors.Space(codec, false);
    const SpaceHandle space = *rig_.client().RegisterSpace(spec);
    const auto here = Open(space, tensors.tensors());
    const auto host = *HostLanes::Open(&rig_.client(), space, tensors.tensors());
    const KvValues values = GaussianValues(tensors.shape(), first += 10, 30);
    tensors.Compute(0, values);
    EXPECT_THAT(ResultsOf(here->Offload(TestKeys(first, 1), {}, Slots(0, 1), {})), Each(true));
    EXPECT_THAT(ResultsOf(host->Onboard(TestKeys(first, 1), Slots(1, 1))), Each(true));
    EXPECT_THAT(ResultsOf(host->Offload(TestKeys(first + 1, 1), {}, Slots(0, 1))), Each(true));
    EXPECT_THAT(ResultsOf(here->Onboard(TestKeys(first + 1, 1), Slots(2, 1), {})), Each(true));
    for (const uint32_t slot : {1U, 2U}) {
      EXPECT_EQ(tensors.Read(slot), ThereAndBack(spec, values)) << codec << ", slot " << slot;
    }
  }
}

TEST_F(DeviceLanesTest, ADamagedBlockVoidsTheJobAndTheAgentIsTold) {
  EXPECT_THAT(ResultsOf(Offload()), Each(true));
  {
    const OnboardedBlocks hit = *rig_.client().Onboard(rig_.SpaceOf(memory_), TestKeys(1, 3), {});
    auto bytes = *rig_.client().host_memory().write->Write(hit.offset(1), hit.bytes(1).size());
    bytes[500] ^= std::byte{4};
  }
  const auto job = Onboard();
  EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT((*job)->results(), Each(false));
  EXPECT_EQ(lanes_->StatsOf(HostDirection::kOnboard).failed_blocks, 3U);
  EXPECT_TRUE(Eventually([this] { return rig_.agent().Counts().damage_reports == 1; }));
}

TEST_F(DeviceLanesTest, WithoutAnAgentJobsFailByThemselves) {
  rig_.agent().Kill();
  EXPECT_TRUE(Eventually([this] { return !rig_.client().connected(); }));
  for (const auto& job : {Offload(), Onboard()}) {
    EXPECT_EQ(EndOf(job).code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT((*job)->results(), Each(false));
  }
}

TEST_F(DeviceLanesTest, SlotsThatAreAskedBackAreNotPublishedAndTheOthersAre) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  const auto some = Offload();
  const auto all = lanes_->Offload(TestKeys(50, 1), {}, Slots(2, 1), {});
  EXPECT_TRUE(*lanes_->AwaitCopied(Slots(8, 3), absl::ZeroDuration()));
  EXPECT_FALSE(*lanes_->AwaitCopied(Slots(2, 3), absl::Milliseconds(1)));
  EXPECT_EQ(EndOf(all).code(), absl::StatusCode::kAborted);
  memory_.Compute(2, 99);  // An engine may do this, since it has the slot back.
  rig_.agent().Resume();
  EXPECT_EQ(EndOf(some).code(), absl::StatusCode::kAborted);
  EXPECT_THAT((*some)->results(), ElementsAre(true, true, false));
  EXPECT_TRUE(rig_.HoldsNothing());
  EXPECT_EQ(rig_.agent().Counts().blocks, 2U);
}

TEST_F(DeviceLanesTest, BeyondItsPlacesADirectionRefusesAndNeverWaits) {
  rig_.agent().HangCalls(FakeAgent::Hang::kAll);
  std::vector<std::shared_ptr<HostJob>> jobs;
  for (size_t i = 0; i < WorkerLanes::kMaxJobs; ++i) jobs.push_back(*Onboard(1));
  EXPECT_EQ(Onboard(1).status().code(), absl::StatusCode::kResourceExhausted);
  rig_.agent().Resume();
  for (const auto& job : jobs) EXPECT_THAT(ResultsOf(job), ElementsAre(false));
  EXPECT_THAT(ResultsOf(Onboard(1)), ElementsAre(false));
}

TEST_F(DeviceLanesTest, ClosedLanesHaveEndedTheirJobsAndStartNothing) {
  const auto job = Offload();
  lanes_->Close();
  lanes_->Close();
  EXPECT_TRUE((*job)->done());
  EXPECT_EQ(Onboard().status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(*lanes_->AwaitCopied(Slots(0, 3), absl::ZeroDuration()));
}

TEST_F(DeviceLanesTest, AHintGoesToTheAgentWithEachJob) {
  const ReuseHint stored = {.turn = 2, .priority = 7};
  EXPECT_THAT(ResultsOf(lanes_->Offload(TestKeys(1, 2), {}, Slots(0, 2), {.hint = stored})),
              Each(true));
  EXPECT_EQ(rig_.agent().Counts().hints, (std::vector<std::optional<ReuseHint>>{stored}));
  const ReuseHint loaded = {.will_not_return = true};
  EXPECT_THAT(ResultsOf(lanes_->Onboard(TestKeys(1, 2), Slots(8, 2), {.hint = loaded})),
              Each(true));
  EXPECT_EQ(rig_.agent().Counts().hints, (std::vector<std::optional<ReuseHint>>{loaded}));
}

TEST_F(DeviceLanesTest, WhatCannotBeNamesFieldAndValue) {
  const auto words_of = [](const auto& result) { return std::string(result.status().message()); };
  const std::vector<EngineKey> keys = TestKeys(1, 2);
  EXPECT_THAT(words_of(lanes_->Offload(keys, {}, Slots(0, 1), {})),
              HasSubstr("2 keys and 1 slots"));
  EXPECT_THAT(words_of(lanes_->Offload(keys, {}, Slots(15, 2), {})), HasSubstr("blocks[1] is 16"));
  const std::vector<uint32_t> twice = {3, 3};
  EXPECT_THAT(words_of(lanes_->Onboard(keys, twice, {})), HasSubstr("3 twice"));
  EXPECT_THAT(words_of(lanes_->Onboard(keys, Slots(0, 2), {.timeout = absl::Seconds(-1)})),
              HasSubstr("timeout is -1s"));
  int event = 0;
  const EngineWork work = {.kind = EngineWork::Kind::kStream};
  EXPECT_THAT(words_of(lanes_->Offload(keys, {}, Slots(0, 2), {.after = work})),
              HasSubstr("no streams"));
  EXPECT_THAT(words_of(lanes_->Onboard(keys, Slots(0, 2), {.after = work})),
              HasSubstr("no streams"));
  EXPECT_THAT(words_of(lanes_->Onboard(keys, Slots(0, 2), {.record = &event})),
              HasSubstr("no streams"));
  for (const char* device : {"emulated", "auto", "cuda", "cuda:-1", ""}) {
    EXPECT_THAT(words_of(LaneDevices().Of(&rig_.client(), device, 4096)),
                HasSubstr("; must be \"cuda:N\""))
        << device;
  }
}

}  // namespace
}  // namespace kvtier
