// Tests the time of a lane whose batches overlap: an emulated device takes as long as the model
// says, and a batch that runs ahead of its turn saves time but moves no bytes early.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/tier_gpu/emulated_rig.h"

namespace kvtier {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class EmulatedLaneTest : public ::testing::Test {
 protected:
  EmulatedLaneTest() : rig_(&time_, {.link = link_}) {}

  // Returns the shape of a batch of one block that a kernel gathers or scatters.
  static CopyShape Staged(CopyDirection direction = kOut, uint64_t bytes = kMiB) {
    return {.direction = direction, .segments = 1, .bytes = bytes, .kernel_bytes = 2 * bytes};
  }
  // Submits a copy from the first byte of host memory and of the region.
  void Submit(const CopyShape& shape) {
    if (shape.kernel_bytes == 0) {
      const CopySegment segment = {.host = rig_.host(0).data(), .bytes = shape.bytes};
      ASSERT_TRUE(rig_.Submit(shape.direction, segment).ok());
      return;
    }
    const BlockGeometry geometry = {.shape = {.layers = 1, .axes = 1, .tokens = 1, .kv_heads = 1},
                                    .row_bytes = shape.bytes,
                                    .planes = {0}};
    const BlockTransfer block = {.host = rig_.host(0).data()};
    ASSERT_TRUE(rig_.device()
                    .SubmitBlocks({.direction = shape.direction,
                                   .region = rig_.region(),
                                   .geometry = &geometry,
                                   .block_bytes = shape.bytes,
                                   .blocks = {&block, 1},
                                   .outcomes = outcomes_,
                                   .summed = false})
                    .ok());
  }
  // Returns how long it takes until everything has ended.
  absl::Duration Finish(std::vector<Completion>* ended = nullptr) {
    const absl::Time start = rig_.Now();
    std::vector<Completion> all = rig_.Finish();
    if (ended != nullptr) *ended = std::move(all);
    return rig_.Now() - start;
  }

  testing::SimTime time_;
  const LinkModel link_ = LinkModel::Pcie5();
  EmulatedRig rig_;
  BlockOutcomes* const outcomes_ = new (rig_.host(500).data()) BlockOutcomes();
};

TEST_F(EmulatedLaneTest, BatchesOfBothKindsTakeWhatTheModelSaysOfTheirLane) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<CopyShape> shapes;
    for (int i = 0; i < 12; ++i) {
      CopyShape shape = Staged(round % 2 == 0 ? kOut : kIn, kRigBlock << random() % 9);
      if (random() % 2 == 0) shape.kernel_bytes = 0;
      shapes.push_back(shape);
      Submit(shape);
    }
    std::vector<Completion> ended;
    const absl::Duration took = Finish(&ended);
    EXPECT_EQ(took, link_.PredictLane(shapes)) << "round " << round;
    absl::Duration sum;
    for (const Completion& one : ended) sum += one.device;
    EXPECT_EQ(sum, took) << "round " << round;
  }
}

TEST_F(EmulatedLaneTest, ABatchBehindAnotherHasOnlyItsCopyLeft) {
  for (const CopyDirection direction : {kOut, kIn}) {
    Submit(Staged(direction));
    Submit(Staged(direction));
    std::vector<Completion> ended;
    Finish(&ended);
    EXPECT_EQ(ended.at(0).device, link_.Predict(Staged(direction)));
    EXPECT_LT(ended.at(1).device, link_.Predict(Staged(direction)) - absl::Microseconds(25));
  }
}

TEST_F(EmulatedLaneTest, WhatABatchDidAheadBeganWithItsSubmission) {
  const absl::Duration alone = link_.Predict(Staged());
  Submit(Staged());
  rig_.Pass(alone - absl::Microseconds(1));
  Submit(Staged());
  std::vector<Completion> ended;
  Finish(&ended);
  EXPECT_EQ(ended.at(1).device, alone - absl::Microseconds(1));
}

TEST_F(EmulatedLaneTest, BehindAWordNothingHasBegunBeforeTheWord) {
  Submit(Staged());
  ASSERT_TRUE(rig_.device().Await(Lane::kOffload, rig_.word(0), 1).ok());
  Submit(Staged());
  rig_.Pass(absl::Seconds(1));
  EXPECT_EQ(rig_.Poll().size(), 1U);
  rig_.device().Raise(rig_.word(0), 1);
  EXPECT_EQ(Finish(), link_.Predict(Staged()));
}

TEST_F(EmulatedLaneTest, ASignalBetweenTwoBatchesTakesNoTime) {
  Submit(Staged());
  ASSERT_TRUE(rig_.device().Signal(Lane::kOffload, rig_.word(0), 1).ok());
  Submit(Staged());
  EXPECT_EQ(Finish(), link_.PredictLane(std::vector(2, Staged())));
}

TEST_F(EmulatedLaneTest, AStalledLaneHasPreparedNothing) {
  rig_.device().Stall(Lane::kOffload);
  Submit(Staged());
  rig_.Pass(absl::Seconds(1));
  rig_.device().Resume(Lane::kOffload);
  EXPECT_EQ(Finish(), link_.Predict(Staged()));
}

TEST_F(EmulatedLaneTest, ALaneThatWasNotStalledGoesOnAsItWas) {
  Submit(Staged());
  Submit(Staged());
  rig_.device().Resume(Lane::kOffload);
  EXPECT_EQ(Finish(), link_.PredictLane(std::vector(2, Staged())));
}

TEST_F(EmulatedLaneTest, AsMuchGoesTheOtherWayTheCopyIsSlower) {
  Submit(Staged(kOut));
  Submit(Staged(kIn));
  CopyShape beside = Staged(kIn);
  beside.duplex = true;
  std::vector<Completion> ended;
  Finish(&ended);
  EXPECT_EQ(ended.at(0).ticket.lane, Lane::kOnboard);
  EXPECT_EQ(ended.at(0).device, link_.Predict(beside));
}

// A GPU's kernel may have gathered by then, but the API does not promise it.
TEST_F(EmulatedLaneTest, ASourceIsReadInTheTurnOfItsBatch) {
  Submit(Staged());
  Submit(Staged());
  rig_.Pass(link_.Predict(Staged()));
  ASSERT_EQ(rig_.Poll().size(), 1U);
  std::ranges::fill(rig_.slot(0), std::byte{2});
  Finish();
  EXPECT_EQ(rig_.host(0).front(), std::byte{2});
}

TEST_F(EmulatedLaneTest, ACopyThatMovesNothingTakesItsTime) {
  EmulatedRig rig(&time_, {.link = link_});
  rig.device().LeaveOutBytes();
  rig.host(0).front() = std::byte{1};
  ASSERT_TRUE(rig.Submit(kIn, rig.Block(0, 0)).ok());
  const CopyShape shape = {.direction = kIn, .segments = 1, .bytes = kRigBlock};
  EXPECT_EQ(rig.Finish().at(0).device, link_.Predict(shape));
  EXPECT_EQ(rig.slot(0).front(), std::byte{0});
}

}  // namespace
}  // namespace kvtier
