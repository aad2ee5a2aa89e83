#include "tier_gpu/device/emulated_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tests/tier_gpu/emulated_rig.h"

namespace kvtier {
namespace {

class EmulatedDeviceTest : public ::testing::Test {
 protected:
  EmulatedDeviceTest() : rig_(&time_, {.link = link_}) {}
  absl::Duration TimeOf(CopyDirection direction, size_t segments, uint64_t bytes) const {
    return link_.Predict({.direction = direction, .segments = segments, .bytes = bytes});
  }
  static void Fill(std::span<std::byte> bytes, int with) {
    std::ranges::fill(bytes, static_cast<std::byte>(with));
  }
  testing::SimTime time_;
  const LinkModel link_ = LinkModel::Pcie5();
  EmulatedRig rig_;
};

TEST_F(EmulatedDeviceTest, BytesComeBackAsTheyWent) {
  Fill(rig_.host(0), 7);
  const Ticket there = *rig_.Submit(kIn, rig_.Block(3, 0));
  EXPECT_EQ(rig_.Finish().at(0).ticket, there);
  EXPECT_EQ(rig_.slot(3).front(), std::byte{7});
  ASSERT_TRUE(rig_.Submit(kOut, rig_.Block(3, 1)).ok());
  EXPECT_EQ(rig_.Finish().at(0).status, absl::OkStatus());
  EXPECT_TRUE(std::ranges::equal(rig_.host(0), rig_.host(1)));
}

TEST_F(EmulatedDeviceTest, WithoutKernelsItCopiesByTheCopyEngineAlone) {
  EmulatedRig without(&time_, {.kernels = false});
  EXPECT_TRUE(without.device().Submit({.region = without.region()}).ok());
  EXPECT_EQ(without.device().SubmitBlocks({.region = without.region()}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EmulatedDeviceTest, ABatchTakesTheTimeOfItsLink) {
  const absl::Time start = rig_.Now();
  const std::vector<CopySegment> two = {rig_.Block(0, 0), rig_.Block(1, 1)};
  ASSERT_TRUE(rig_.Submit(kIn, two).ok());
  const absl::Duration predicted = TimeOf(kIn, 2, 2 * kRigBlock);
  rig_.Pass(predicted - absl::Nanoseconds(1));
  EXPECT_TRUE(rig_.Poll().empty());
  rig_.Pass(absl::Nanoseconds(1));
  const std::vector<Completion> ended = rig_.Poll();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].device, predicted);
  EXPECT_EQ(rig_.Now() - start, predicted);
}

TEST_F(EmulatedDeviceTest, ALaneRunsInTheOrderOfTheCalls) {
  const absl::Duration each = TimeOf(kIn, 1, kRigBlock);
  Fill(rig_.host(0), 1);
  Fill(rig_.host(1), 2);
  const Ticket first = *rig_.Submit(kIn, rig_.Block(0, 0));
  const Ticket second = *rig_.Submit(kIn, rig_.Block(0, 1));
  EXPECT_EQ(second.sequence, first.sequence + 1);
  rig_.Pass(each);
  EXPECT_EQ(rig_.Poll().at(0).ticket, first);
  rig_.Pass(each);
  EXPECT_EQ(rig_.Poll().at(0).ticket, second);
  EXPECT_EQ(rig_.slot(0).front(), std::byte{2});
}

TEST_F(EmulatedDeviceTest, TheTwoDirectionsRunSideBySide) {
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  ASSERT_TRUE(rig_.Submit(kOut, rig_.Block(1, 1)).ok());
  rig_.Pass(2 * TimeOf(kIn, 1, kRigBlock) - absl::Nanoseconds(1));
  EXPECT_EQ(rig_.Poll().size(), 2u);
}

TEST_F(EmulatedDeviceTest, ASourceIsReadWhenTheBatchRuns) {
  Fill(rig_.host(0), 1);
  rig_.device().Stall(Lane::kOnboard);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  rig_.Pass(absl::Seconds(1));
  Fill(rig_.host(0), 2);  // Too early, because the copy has not read it.
  rig_.device().Resume(Lane::kOnboard);
  rig_.Finish();
  EXPECT_EQ(rig_.slot(0).front(), std::byte{2});
}

TEST_F(EmulatedDeviceTest, AFullLaneRefusesUntilItIsPolledAndTheOtherDoesNot) {
  for (size_t i = 0; i < kMaxLaneDepth; ++i) {
    ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok()) << i;
  }
  EXPECT_EQ(rig_.Submit(kIn, rig_.Block(0, 0)).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rig_.device().Signal(Lane::kOnboard, rig_.word(0), 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(rig_.Submit(kOut, rig_.Block(0, 0)).ok());
  rig_.Pass(absl::Seconds(1));
  EXPECT_FALSE(rig_.Submit(kIn, rig_.Block(0, 0)).ok()) << "ended, but nobody was told";
  EXPECT_EQ(rig_.Poll().size(), kMaxLaneDepth + 1);
  EXPECT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
}

TEST_F(EmulatedDeviceTest, ALaneGoesOnWhenItsWordIsReached) {
  ASSERT_TRUE(rig_.device().Await(Lane::kOffload, rig_.word(3), 5).ok());
  ASSERT_TRUE(rig_.Submit(kOut, rig_.Block(0, 0)).ok());
  rig_.Pass(absl::Seconds(1));
  EXPECT_TRUE(rig_.Poll().empty());
  rig_.device().Raise(rig_.word(3), 4);
  rig_.Pass(absl::Seconds(1));
  EXPECT_TRUE(rig_.Poll().empty());
  rig_.device().Raise(rig_.word(3), 6);
  EXPECT_EQ(rig_.Finish().size(), 2u);
}

TEST_F(EmulatedDeviceTest, ASignalComesWhenWhatIsBeforeItHasEnded) {
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  ASSERT_TRUE(rig_.device().Signal(Lane::kOnboard, rig_.word(0), 1).ok());
  const Ticket waits = *rig_.device().Await(Lane::kCompute, rig_.word(0), 1);
  bool ran = false;
  ASSERT_TRUE(
      rig_.device().Launch({.run = absl::Microseconds(1), .body = [&] { ran = true; }}).ok());
  EXPECT_FALSE(rig_.device().Reached(*rig_.word(0), 1));
  rig_.Pass(TimeOf(kIn, 1, kRigBlock));
  std::vector<Completion> ended = rig_.Poll();
  EXPECT_TRUE(rig_.device().Reached(*rig_.word(0), 1));
  EXPECT_FALSE(ran);
  rig_.Pass(absl::Microseconds(1));
  rig_.Poll();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(std::ranges::any_of(ended, [&](const auto& one) { return one.ticket == waits; }));
}

TEST_F(EmulatedDeviceTest, AReleasedWordLetsEverybodyGo) {
  ASSERT_TRUE(rig_.device().Await(Lane::kCompute, rig_.word(9), 1'000'000).ok());
  rig_.Pass(absl::Hours(1));
  EXPECT_EQ(rig_.device().Drain(absl::Milliseconds(1)).code(), absl::StatusCode::kDeadlineExceeded);
  rig_.word(9)->store(kReleased);
  EXPECT_EQ(rig_.Finish().size(), 1u);
}

TEST_F(EmulatedDeviceTest, TheChosenCopyFailsHalfDoneAndTheNextSucceeds) {
  Fill(rig_.host(0), 7);
  Fill(rig_.host(1), 7);
  rig_.device().FailCopy(kIn, 2);
  const std::vector<CopySegment> two = {rig_.Block(0, 0), rig_.Block(1, 1)};
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(5, 0)).ok());
  ASSERT_TRUE(rig_.Submit(kIn, two).ok());
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(6, 0)).ok());
  const std::vector<Completion> ended = rig_.Finish();
  EXPECT_EQ(ended.at(0).status, absl::OkStatus());
  EXPECT_EQ(ended.at(1).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ended.at(2).status, absl::OkStatus());
  EXPECT_EQ(rig_.slot(0).front(), std::byte{7});
  EXPECT_EQ(rig_.slot(1).front(), std::byte{0});
  EXPECT_TRUE(rig_.device().state().ok());
}

TEST_F(EmulatedDeviceTest, NoSignalIsGivenBehindAFailureThatNobodyKnowsOf) {
  rig_.device().FailCopy(kIn, 1);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  ASSERT_TRUE(rig_.device().Signal(Lane::kOnboard, rig_.word(0), 1).ok());
  EXPECT_EQ(rig_.Finish().at(1).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(rig_.device().Reached(*rig_.word(0), 1));
  ASSERT_TRUE(rig_.device().Signal(Lane::kOnboard, rig_.word(0), 1).ok());
  EXPECT_EQ(rig_.Finish().at(0).status, absl::OkStatus());
  EXPECT_TRUE(rig_.device().Reached(*rig_.word(0), 1));
}

TEST_F(EmulatedDeviceTest, ALostDeviceFailsWhatRunsWaitsAndComes) {
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(1, 1)).ok());
  ASSERT_TRUE(rig_.device().Await(Lane::kCompute, rig_.word(0), 1).ok());
  rig_.device().Lose();
  const std::vector<Completion> ended = rig_.Poll();
  ASSERT_EQ(ended.size(), 3u) << "nobody waits for a link that is gone";
  for (const Completion& one : ended) {
    EXPECT_EQ(one.status.code(), absl::StatusCode::kUnavailable);
  }
  std::vector<std::byte> more(kRigBlock);
  EXPECT_EQ(rig_.device().state().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.Submit(kIn, rig_.Block(0, 0)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.device().Signal(Lane::kOffload, rig_.word(0), 1).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.device().Pin(more).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.device().Drain(absl::Seconds(1)).code(), absl::StatusCode::kUnavailable);
  const RegionShape shape = {.handle_bytes = kRegionGranularity};
  EXPECT_EQ(rig_.device().CreateRegion(shape, 1).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EmulatedDeviceTest, WhatALostDeviceHadInItsLanesMayRunOn) {
  Fill(rig_.host(0), 7);
  Fill(rig_.host(1), 8);
  rig_.device().LoseInCopy(kIn, 1);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(1, 1)).ok());
  rig_.Pass(absl::Seconds(1));
  const std::vector<Completion> ended = rig_.Poll();
  ASSERT_EQ(ended.size(), 2u);
  for (const Completion& one : ended) EXPECT_TRUE(IsAbandoned(one.status));
  EXPECT_FALSE(IsAbandoned(rig_.Submit(kIn, rig_.Block(2, 2)).status())) << "it never began";
  EXPECT_EQ(rig_.slot(1).front(), std::byte{0});
  rig_.device().RunAbandoned();
  EXPECT_EQ(rig_.slot(0).front(), std::byte{7});
  EXPECT_EQ(rig_.slot(1).front(), std::byte{8});
}

// A device once took a batch after it was lost, and the batch never ended.
TEST_F(EmulatedDeviceTest, WhatIsSubmittedAsTheDeviceIsLostIsRefused) {
  rig_.device().LoseInCopy(kIn, 1);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.Submit(kIn, rig_.Block(1, 1)).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(rig_.Poll().size(), 1u);
}

TEST_F(EmulatedDeviceTest, ADrainInWhichTheDeviceIsLostFails) {
  rig_.device().LoseInCopy(kIn, 1);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.device().Drain(absl::Seconds(1)).code(), absl::StatusCode::kUnavailable);
}

TEST_F(EmulatedDeviceTest, ACopyThatFailedHasEnded) {
  rig_.device().FailCopy(kIn, 1);
  ASSERT_TRUE(rig_.Submit(kIn, rig_.Block(0, 0)).ok());
  EXPECT_FALSE(IsAbandoned(rig_.Finish().at(0).status));
}

TEST_F(EmulatedDeviceTest, WhatAKilledProcessHadSubmittedDoesNotHappen) {
  auto killed = std::make_unique<EmulatedRig>(&time_);
  const std::vector<int> handles = {rig_.region()->descriptor(0)};
  auto shared =
      *killed->device().ImportRegion(rig_.region()->shape(), handles, killed->device().uuid());
  Fill(killed->host(0), 9);
  const CopySegment block = killed->Block(0, 0);
  ASSERT_TRUE(killed->device()
                  .Submit({.direction = kIn, .region = shared.get(), .segments = {&block, 1}})
                  .ok());
  shared.reset();
  killed.reset();
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.slot(0).front(), std::byte{0});
}

TEST_F(EmulatedDeviceTest, SegmentsOutsideTheRegionAreInvalid) {
  std::byte* const host = rig_.host(0).data();
  const uint64_t end = rig_.region()->bytes();
  const std::vector<CopySegment> wrong = {
      {0, host, 0},       {end, host, 1},          {end - 1, host, 2},
      {0, host, end + 1}, {~uint64_t{0}, host, 2}, {1, host, ~uint64_t{0}}};
  for (const CopySegment& segment : wrong) {
    EXPECT_EQ(rig_.Submit(kIn, segment).status().code(), absl::StatusCode::kInvalidArgument)
        << segment.device_offset << " + " << segment.bytes;
  }
  EXPECT_TRUE(rig_.Submit(kIn, {end - 1, host, 1}).ok());
}

TEST_F(EmulatedDeviceTest, HostMemoryThatIsNotPinnedIsInvalid) {
  std::vector<std::byte> pageable(kRigBlock);
  EXPECT_EQ(rig_.Submit(kIn, {0, pageable.data(), kRigBlock}).status().code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(rig_.device().Pin(pageable).ok());
  EXPECT_TRUE(rig_.Submit(kIn, {0, pageable.data(), kRigBlock}).ok());
  rig_.Finish();
  EXPECT_TRUE(rig_.device().Unpin(pageable).ok());
  EXPECT_EQ(rig_.Submit(kIn, {0, pageable.data(), kRigBlock}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(EmulatedDeviceTest, ABatchHoldsOnlySoManySegments) {
  std::vector<CopySegment> segments(kMaxCopySegments, {0, rig_.host(0).data(), 1});
  EXPECT_TRUE(rig_.Submit(kOut, segments).ok());
  segments.push_back(segments.back());
  EXPECT_EQ(rig_.Submit(kOut, segments).status().code(), absl::StatusCode::kInvalidArgument);
}

// Returns which segments of a batch of ten have moved when half its time is over.
std::vector<bool> HalfWay(uint64_t seed) {
  testing::SimTime time;
  EmulatedRig rig(&time, {.seed = seed});
  std::vector<CopySegment> segments;
  for (size_t i = 0; i < 10; ++i) {
    std::ranges::fill(rig.host(i), std::byte{1});
    segments.push_back(rig.Block(i, i));
  }
  KVT_CHECK(rig.Submit(kIn, segments).ok());
  const CopyShape shape = {.direction = kIn, .segments = 10, .bytes = 10 * kRigBlock};
  rig.Pass(LinkModel::Pcie5().Predict(shape) / 2);
  KVT_CHECK(rig.Poll().empty());
  std::vector<bool> there;
  for (size_t i = 0; i < 10; ++i) there.push_back(rig.slot(i).front() == std::byte{1});
  rig.Finish();
  for (size_t i = 0; i < 10; ++i) KVT_CHECK(rig.slot(i).front() == std::byte{1});
  return there;
}

TEST(EmulatedDeviceSeedTest, ASeedShufflesTheSegmentsOfABatchAndRepeats) {
  EXPECT_EQ(HalfWay(1), HalfWay(1));
  bool out_of_order = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<bool> there = HalfWay(seed);
    out_of_order |= !std::ranges::is_sorted(there, std::greater());
  }
  EXPECT_TRUE(out_of_order);
}

}  // namespace
}  // namespace kvtier
