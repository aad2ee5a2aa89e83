#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/tier_gpu/plan_layouts.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kIn = CopyDirection::kHostToDevice;
constexpr auto kOut = CopyDirection::kDeviceToHost;
constexpr uint64_t kKiB = 1 << 10;
constexpr uint64_t kMiB = 1 << 20;

// Plans touch no memory.
std::byte* Host(uint64_t offset) {
  return reinterpret_cast<std::byte*>((uintptr_t{1} << 40) + offset);  // NOLINT
}

// Llama 3 8B: 32 layers of 2 x 32 KiB, 2 MiB a block of 16 tokens.
class PlannerTest : public ::testing::Test {
 protected:
  CopyPlan Plan(const KvGeometry& geometry, const CopyRequest& request) {
    const auto plan = PlanCopies(geometry, request);
    EXPECT_EQ(plan.status(), absl::OkStatus());
    return plan.value_or(CopyPlan{});
  }
  void ExpectRefused(const KvGeometry& geometry, const CopyRequest& request,
                     const std::string& message) {
    const absl::Status status = PlanCopies(geometry, request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  // Slots 0, 2, 4 ... and host memory without a gap.
  static std::vector<PlannedBlock> Scattered(const KvGeometry& geometry, uint32_t count) {
    std::vector<PlannedBlock> blocks;
    for (uint32_t i = 0; i < count; ++i) {
      blocks.push_back({.slot = 2 * i, .host = Host(i * geometry.block_bytes())});
    }
    return blocks;
  }

  const KvGeometry llama_ = KvGeometry::Owned(KvAxes::kApart, 32, 32 * kKiB, 2048);
};

TEST_F(PlannerTest, ABlockOfOurPoolIsOneSegment) {
  const std::vector<PlannedBlock> blocks = {{.slot = 3, .host = Host(0)}};
  const CopyPlan plan = Plan(llama_, {.blocks = blocks, .direction = kOut});
  EXPECT_THAT(plan.segments, ElementsAre(CopySegment{
                                 .device_offset = 6 * kMiB, .host = Host(0), .bytes = 2 * kMiB}));
  ASSERT_THAT(plan.batches, SizeIs(1));
  EXPECT_EQ(plan.batches[0].path, CopyPath::kBatch);
  EXPECT_EQ(plan.batches[0].layers_complete, 32);
}

TEST_F(PlannerTest, NoBlocksAreNoBatches) { EXPECT_THAT(Plan(llama_, {}).batches, SizeIs(0)); }

TEST_F(PlannerTest, NeighboursOnBothSidesAreOneSegment) {
  const std::vector<PlannedBlock> up = {{.slot = 5, .host = Host(0)},
                                        {.slot = 6, .host = Host(2 * kMiB)}};
  EXPECT_THAT(
      Plan(llama_, {.blocks = up}).segments,
      ElementsAre(CopySegment{.device_offset = 10 * kMiB, .host = Host(0), .bytes = 4 * kMiB}));
  const std::vector<PlannedBlock> down = {{.slot = 6, .host = Host(2 * kMiB)},
                                          {.slot = 5, .host = Host(0)}};
  EXPECT_THAT(
      Plan(llama_, {.blocks = down}).segments,
      ElementsAre(CopySegment{.device_offset = 10 * kMiB, .host = Host(0), .bytes = 4 * kMiB}));
}

// A model test's find: only the last segment was compared with what came.
TEST_F(PlannerTest, ABlockThatClosesAGapMakesOneSegmentOfThree) {
  const std::vector<PlannedBlock> blocks = {{.slot = 2, .host = Host(2 * kKiB)},
                                            {.slot = 0, .host = Host(0)},
                                            {.slot = 1, .host = Host(kKiB)}};
  const testing::Layout layout =
      testing::LatentLayout({.layers = 1, .slots = 3, .run_bytes = kKiB, .start = 0});
  EXPECT_THAT(Plan(layout.geometry, {.blocks = blocks}).segments,
              ElementsAre(CopySegment{.device_offset = 0, .host = Host(0), .bytes = 3 * kKiB}));
}

TEST_F(PlannerTest, NeighboursOnOneSideAreTwoSegments) {
  const std::vector<PlannedBlock> crossed = {{.slot = 5, .host = Host(2 * kMiB)},
                                             {.slot = 6, .host = Host(0)}};
  EXPECT_THAT(Plan(llama_, {.blocks = crossed}).segments, SizeIs(2));
  const std::vector<PlannedBlock> apart = {{.slot = 5, .host = Host(0)},
                                           {.slot = 6, .host = Host(3 * kMiB)}};
  EXPECT_THAT(Plan(llama_, {.blocks = apart}).segments, SizeIs(2));
}

TEST_F(PlannerTest, NeighboursGrowNoLongerThanABatch) {
  std::vector<PlannedBlock> blocks;
  for (uint32_t i = 0; i < 5; ++i) blocks.push_back({.slot = i, .host = Host(2 * kMiB * i)});
  EXPECT_THAT(
      Plan(llama_, {.blocks = blocks}).batches,
      ElementsAre(Field(&PlannedBatch::bytes, 4 * kMiB), Field(&PlannedBatch::bytes, 4 * kMiB),
                  Field(&PlannedBatch::bytes, 2 * kMiB)));
}

TEST_F(PlannerTest, RoomBehindABlockIsNotCopied) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kFused, 1, 5000, 4);
  const std::vector<PlannedBlock> blocks = {{.slot = 0, .host = Host(0)},
                                            {.slot = 1, .host = Host(8192)}};
  EXPECT_THAT(Plan(geometry, {.blocks = blocks}).segments,
              ElementsAre(CopySegment{.device_offset = 0, .host = Host(0), .bytes = 5000},
                          CopySegment{.device_offset = 8192, .host = Host(8192), .bytes = 5000}));
}

TEST_F(PlannerTest, ASegmentIsCutAtTheBorderOfPinnedChunks) {
  const std::vector<PlannedBlock> blocks = {{.slot = 5, .host = Host(0)},
                                            {.slot = 6, .host = Host(2 * kMiB)}};
  const PinnedChunks chunks = {.base = Host(0) - kMiB, .chunk_bytes = 4 * kMiB};
  EXPECT_THAT(
      Plan(llama_, {.blocks = blocks, .chunks = chunks}).segments,
      ElementsAre(CopySegment{.device_offset = 10 * kMiB, .host = Host(0), .bytes = 3 * kMiB},
                  CopySegment{.device_offset = 13 * kMiB, .host = Host(3 * kMiB), .bytes = kMiB}));
}

TEST_F(PlannerTest, NoSegmentCrossesTheBorderOfTwoTensors) {
  const std::vector<PlannedBlock> blocks = {{.slot = 5, .host = Host(0)},
                                            {.slot = 6, .host = Host(2 * kMiB)}};
  // Between the two, and inside the second.
  const std::vector<uint64_t> borders = {12 * kMiB, 13 * kMiB};
  EXPECT_THAT(
      Plan(llama_, {.blocks = blocks, .borders = borders}).segments,
      ElementsAre(CopySegment{.device_offset = 10 * kMiB, .host = Host(0), .bytes = 2 * kMiB},
                  CopySegment{.device_offset = 12 * kMiB, .host = Host(2 * kMiB), .bytes = kMiB},
                  CopySegment{.device_offset = 13 * kMiB, .host = Host(3 * kMiB), .bytes = kMiB}));
}

TEST_F(PlannerTest, ABlockLongerThanABatchIsABatch) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kApart, 32, kMiB, 4);
  const std::vector<PlannedBlock> blocks = Scattered(geometry, 2);
  EXPECT_THAT(
      Plan(geometry, {.blocks = blocks}).batches,
      ElementsAre(Field(&PlannedBatch::bytes, 64 * kMiB), Field(&PlannedBatch::bytes, 64 * kMiB)));
}

TEST_F(PlannerTest, ABatchHasNoMoreSegmentsThanDriversTake) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kFused, 1, 512, 4100);
  const std::vector<PlannedBlock> blocks = Scattered(geometry, 2050);
  EXPECT_THAT(Plan(geometry, {.blocks = blocks}).batches,
              ElementsAre(Field(&PlannedBatch::segments, 1024),
                          Field(&PlannedBatch::segments, 1024), Field(&PlannedBatch::segments, 2)));
}

TEST_F(PlannerTest, LayersOfAManyBlockJobCompleteOneByOne) {
  const std::vector<PlannedBlock> blocks = Scattered(llama_, 512);
  const CopyPlan plan = Plan(llama_, {.blocks = blocks, .order = PlanOrder::kLayerWise});
  ASSERT_THAT(plan.batches, SizeIs(256));
  for (size_t i = 0; i < plan.batches.size(); ++i) {
    EXPECT_EQ(plan.batches[i].layers_complete, (i + 1) / 8);
    EXPECT_EQ(plan.batches[i].bytes, 4 * kMiB);
  }
  EXPECT_THAT(plan.segments, Each(Field(&CopySegment::bytes, 64 * kKiB)));
}

TEST_F(PlannerTest, LayersOfASmallJobCompleteInGroups) {
  // 4 blocks: 256 KiB a layer, so 8 layers a group.
  const std::vector<PlannedBlock> blocks = Scattered(llama_, 4);
  const CopyPlan plan = Plan(llama_, {.blocks = blocks, .order = PlanOrder::kLayerWise});
  std::vector<uint32_t> complete;
  for (const PlannedBatch& batch : plan.batches) complete.push_back(batch.layers_complete);
  EXPECT_THAT(complete, ElementsAre(8, 16, 24, 32));
  EXPECT_THAT(plan.segments, Each(Field(&CopySegment::bytes, 512 * kKiB)));
}

TEST_F(PlannerTest, TheLastGroupTakesTheLayersLeftOver) {
  // 5 blocks: 320 KiB a layer, 7 layers a group, and 4 left over.
  const std::vector<PlannedBlock> blocks = Scattered(llama_, 5);
  const CopyPlan plan = Plan(llama_, {.blocks = blocks, .order = PlanOrder::kLayerWise});
  std::vector<uint32_t> complete;
  for (const PlannedBatch& batch : plan.batches) complete.push_back(batch.layers_complete);
  EXPECT_THAT(complete, ElementsAre(7, 14, 21, 32));
}

TEST_F(PlannerTest, LayersOfOneSmallBlockCompleteTogether) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kApart, 32, kKiB, 4);
  const std::vector<PlannedBlock> blocks = Scattered(geometry, 1);
  const CopyPlan plan = Plan(geometry, {.blocks = blocks, .order = PlanOrder::kLayerWise});
  EXPECT_THAT(plan.batches, ElementsAre(Field(&PlannedBatch::layers_complete, 32)));
}

// A 32-KiB page that was submitted as two pieces of 16 KiB fell off an engine's cliff.
TEST_F(PlannerTest, TheSizeOfFragmentsChoosesThePathNotThatOfBlocks) {
  const testing::Layout layout =
      testing::PerLayerLayout({.layers = 32, .slots = 1024, .run_bytes = 16 * kKiB, .start = 0});
  ASSERT_EQ(layout.geometry.Validate(layout.registered), absl::OkStatus());
  const std::vector<PlannedBlock> blocks = Scattered(layout.geometry, 256);
  const auto path = Field(&PlannedBatch::path, CopyPath::kStaged);
  EXPECT_THAT(Plan(layout.geometry, {.blocks = blocks, .direction = kIn}).batches, Each(path));
}

TEST_F(PlannerTest, EachBatchTakesThePathOfItsOwnSegments) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kLatent, 1, 4 * kKiB, 8192);
  std::vector<PlannedBlock> blocks = Scattered(geometry, 2048);
  for (uint32_t i = 0; i < 1024; ++i) {  // Neighbours on both sides.
    blocks.push_back({.slot = 5000 + i, .host = Host(kMiB * 1024 + 4 * kKiB * i)});
  }
  const auto path = [](CopyPath wanted) { return Field(&PlannedBatch::path, wanted); };
  EXPECT_THAT(
      Plan(geometry, {.blocks = blocks, .direction = kIn}).batches,
      ElementsAre(path(CopyPath::kStaged), path(CopyPath::kStaged), path(CopyPath::kBatch)));
}

TEST_F(PlannerTest, AnAgentsPlanHasNoKernels) {
  const testing::Layout layout =
      testing::PerLayerLayout({.layers = 32, .slots = 512, .run_bytes = kKiB, .start = 0});
  const std::vector<PlannedBlock> blocks = Scattered(layout.geometry, 64);
  EXPECT_THAT(Plan(layout.geometry, {.blocks = blocks, .paths = LanePaths::kEngine}).batches,
              Each(Field(&PlannedBatch::path, CopyPath::kBatch)));
}

TEST_F(PlannerTest, WrongBlocksAreNamed) {
  std::vector<PlannedBlock> blocks = Scattered(llama_, 3);
  blocks[2].slot = 2048;
  ExpectRefused(llama_, {.blocks = blocks}, "block 2: slot is 2048 of 2048");
  blocks[2].slot = 2;
  ExpectRefused(llama_, {.blocks = blocks, .direction = kIn},
                "block 2: slot is 2, as of a block before it");
  EXPECT_THAT(Plan(llama_, {.blocks = blocks, .direction = kOut}).segments, SizeIs(3));
  blocks[1].host = nullptr;
  ExpectRefused(llama_, {.blocks = blocks}, "block 1: host is null");
  blocks[1].host = reinterpret_cast<std::byte*>(~uintptr_t{4095});  // NOLINT
  ExpectRefused(llama_, {.blocks = blocks}, "past 64 bits");
}

TEST_F(PlannerTest, WrongChunksAreNamed) {
  const std::vector<PlannedBlock> blocks = Scattered(llama_, 1);
  ExpectRefused(llama_, {.blocks = blocks, .chunks = {.base = Host(1), .chunk_bytes = 4096}},
                "below the chunks' base");
  ExpectRefused(llama_, {.blocks = blocks, .chunks = {.base = Host(0), .chunk_bytes = 1000}},
                "chunk_bytes is 1000");
}

TEST_F(PlannerTest, APlanThatIsTooLongIsRefused) {
  const testing::Layout layout =
      testing::PerLayerLayout({.layers = 64, .slots = 16'500, .run_bytes = 512, .start = 0});
  const std::vector<PlannedBlock> blocks = Scattered(layout.geometry, 8193);
  const CopyRequest request = {.blocks = blocks};
  const absl::Status status = PlanCopies(layout.geometry, request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("8193 blocks of 128 runs"));
  EXPECT_THAT(Plan(layout.geometry, {.blocks = std::span(blocks).first(8192)}).segments,
              SizeIs(kMaxPlanRuns));
}

}  // namespace
}  // namespace kvtier
