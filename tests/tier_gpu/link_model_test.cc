// Compares the link model with published figures from which none of its constants was taken, and
// tests the rules by which batches of one lane overlap.
#include "tier_gpu/device/link_model.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvtier {
namespace {

constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;

CopyShape Shape(CopyDirection direction, size_t segments, double segment_bytes) {
  return {.direction = direction,
          .segments = segments,
          .bytes = static_cast<uint64_t>(static_cast<double>(segments) * segment_bytes)};
}
// Returns Shape() with a kernel that reads and writes each byte once.
CopyShape Staged(CopyDirection direction, size_t segments, double segment_bytes) {
  CopyShape shape = Shape(direction, segments, segment_bytes);
  shape.kernel_bytes = 2 * shape.bytes;
  return shape;
}

// Returns the predicted speed in GB/s.
double Speed(const CopyShape& shape) {
  return static_cast<double>(shape.bytes) /
         absl::ToDoubleNanoseconds(LinkModel::Pcie5().Predict(shape));
}

// vLLM measured about 50 GB/s each way on an H100 with cross-layer blocks.
TEST(LinkModelTest, BlocksOf2MiBGoAsFastAsVllmMeasured) {
  for (const CopyDirection direction : {kIn, kOut}) {
    EXPECT_NEAR(Speed(Shape(direction, 2, 2 * kMiB)), 50, 50 * 0.15);
  }
}

TEST(LinkModelTest, AnInstantLinkTakesNoTime) {
  const LinkModel link = LinkModel::Instant();
  for (const CopyShape& shape : {Shape(kIn, 1024, 4 * kKiB), Staged(kIn, 1024, 4 * kKiB)}) {
    EXPECT_EQ(link.Predict(shape), absl::ZeroDuration());
    const std::vector<CopyShape> lane(3, shape);
    EXPECT_EQ(link.PredictLane(lane), absl::ZeroDuration());
  }
}

TEST(LinkModelTest, ALaneOfOneBatchTakesWhatTheBatchTakes) {
  const LinkModel link = LinkModel::Pcie5();
  for (const CopyDirection direction : {kIn, kOut}) {
    for (const CopyShape& shape :
         {Shape(direction, 256, 16 * kKiB), Staged(direction, 256, 16 * kKiB)}) {
      EXPECT_EQ(link.PredictLane({&shape, 1}), link.Predict(shape));
    }
  }
  EXPECT_EQ(link.PredictLane({}), absl::ZeroDuration());
}

TEST(LinkModelTest, KernelsOfStagedBatchesHideBehindTheLink) {
  const LinkModel link = LinkModel::Pcie5();
  for (const CopyDirection direction : {kIn, kOut}) {
    const CopyShape shape = Staged(direction, 1, 4 * kMiB);
    const CopyShape whole = Shape(direction, 1, 4 * kMiB);
    const std::vector<CopyShape> lane(10, shape);
    // The first launch and one pass of the kernel cannot be hidden.
    EXPECT_EQ(link.PredictLane(lane), link.Predict(shape) + 9 * link.Predict(whole));
  }
}

TEST(LinkModelTest, BatchesOfTheEngineDoNotOverlap) {
  const LinkModel link = LinkModel::Pcie5();
  const CopyShape shape = Shape(kOut, 256, 16 * kKiB);
  const std::vector<CopyShape> lane(10, shape);
  EXPECT_EQ(link.PredictLane(lane), 10 * link.Predict(shape));
}

TEST(LinkModelTest, ABatchOfTheEngineWaitsForTheScatterAheadOfIt) {
  const LinkModel link = LinkModel::Pcie5();
  const CopyShape staged = Staged(kIn, 1, 4 * kMiB);
  const CopyShape batch = Shape(kIn, 1, 64 * kKiB);
  EXPECT_EQ(link.PredictLane(std::vector{staged, batch}),
            link.Predict(staged) + link.Predict(batch));
}

TEST(LinkModelTest, ABufferIsFilledBesideTheBatchAheadAndNotBefore) {
  const LinkModel link = LinkModel::Pcie5();
  const CopyShape batch = Shape(kOut, 1, 4 * kMiB);
  const CopyShape staged = Staged(kOut, 1, 256 * kKiB);
  const CopyShape whole = Shape(kOut, 1, 256 * kKiB);
  EXPECT_EQ(link.PredictLane(std::vector{batch, staged}),
            link.Predict(batch) + link.Predict(whole));
}

TEST(LinkModelTest, WhatIsSubmittedLaterOrBehindAFenceBeginsThen) {
  const LinkModel link = LinkModel::Pcie5();
  const CopyShape shape = Staged(kOut, 1, 4 * kMiB);
  const absl::Time start = absl::UnixEpoch() + absl::Seconds(1);
  LanePipeline lane;
  EXPECT_EQ(link.Advance(shape, start, &lane), start + link.Predict(shape));
  const absl::Time late = start + absl::Seconds(1);
  EXPECT_EQ(link.Advance(shape, late, &lane), late + link.Predict(shape));
  const absl::Time fence = late + absl::Seconds(1);
  lane.Fence(fence);
  EXPECT_EQ(link.Advance(shape, late, &lane), fence + link.Predict(shape));
}

TEST(LinkModelTest, NothingToCopyTakesTheCall) {
  EXPECT_EQ(LinkModel::Pcie5().Predict({}), absl::Nanoseconds(2300));
}

}  // namespace
}  // namespace kvtier
