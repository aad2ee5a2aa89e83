#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "tests/testing/test_seed.h"
#include "tests/tier_gpu/plan_layouts.h"
#include "tier_gpu/device/emulated_region.h"
#include "tier_gpu/plan/block_plan.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;
using testing::kLayouts;
using testing::Layout;
using testing::LayoutMaker;

constexpr uint32_t kTokens = 4;
constexpr uint32_t kHeads = 3;
constexpr uint64_t kRow = 32;

// Returns the form of stored blocks of this geometry: kTokens tokens of kHeads heads.
StoredBlocks StoredOf(const KvGeometry& geometry, KvOrder order = KvOrder::kTokenHead) {
  StoredBlocks stored = {.shape = {.layers = geometry.layers,
                                   .axes = geometry.axes == KvAxes::kLatent ? 1U : 2U,
                                   .tokens = kTokens,
                                   .kv_heads = kHeads,
                                   .head_dim = 16},
                         .row_bytes = kRow,
                         .order = order};
  stored.block_bytes = RawBytes(stored.shape);
  return stored;
}

Layout Make(LayoutMaker make, uint32_t slots = 5) {
  const uint64_t rows = uint64_t{kTokens} * kHeads * (make == testing::FusedLayout ? 2 : 1);
  return make({.layers = 3, .slots = slots, .run_bytes = rows * kRow, .start = 4096});
}

std::byte* HostAt(uint64_t index) {
  static std::array<std::byte, 4096> memory;
  return &memory[index];
}

TEST(BlockPlanTest, RowsAreWhereTheEngineHasThem) {
  std::mt19937_64 random(testing::TestSeed());
  for (const LayoutMaker make : kLayouts) {
    const Layout layout = Make(make);
    for (const KvOrder order : {KvOrder::kTokenHead, KvOrder::kHeadToken}) {
      const StoredBlocks stored = StoredOf(layout.geometry, order);
      const auto form = EncodedForm(layout.geometry, stored);
      ASSERT_TRUE(form.ok()) << form.status();
      const bool fused = layout.geometry.axes == KvAxes::kFused;
      for (int i = 0; i < 100; ++i) {
        const uint64_t layer = random() % 3;
        const uint64_t axis = random() % stored.shape.axes;
        const uint64_t token = random() % kTokens;
        const uint64_t head = random() % kHeads;
        // The layout's formula gives the run's place; the order gives the row's place in the run.
        const uint64_t row =
            order == KvOrder::kTokenHead ? token * kHeads + head : head * kTokens + token;
        const uint64_t expected =
            layout.address(layer, fused ? 0 : axis, 3) + (fused ? 2 * row + axis : row) * kRow;
        const BlockGeometry& geometry = form->rows;
        EXPECT_EQ(3 * form->slot_stride + geometry.planes[layer * stored.shape.axes + axis] +
                      token * geometry.token_stride + head * geometry.head_stride,
                  expected)
            << layout.name;
      }
    }
  }
}

TEST(BlockPlanTest, WhatIsPlannedIsTaken) {
  const auto region = EmulatedRegion::Reserve({.handle_bytes = kRegionGranularity}, nullptr);
  ASSERT_TRUE(region.ok() && (*region)->Grow().ok());
  for (const LayoutMaker make : kLayouts) {
    const Layout layout = Make(make);
    std::vector<PlannedBlock> blocks;
    blocks.reserve(5);
    for (uint32_t i = 0; i < 5; ++i) blocks.push_back({.slot = i, .host = HostAt(i)});
    for (const BlockForm& form :
         {RawForm(layout.geometry), *EncodedForm(layout.geometry, StoredOf(layout.geometry))}) {
      const auto plan = PlanBlocks(form, PlanOrder::kWhole, blocks);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(plan->batches.size(), 1);
      BlockBatch batch = plan->BatchOf(0, CopyDirection::kDeviceToHost);
      batch.region = region->get();
      EXPECT_EQ(CheckBlocks(batch), absl::OkStatus()) << layout.name;
      EXPECT_EQ(batch.blocks.size(), 5);
      EXPECT_EQ(batch.blocks[4].host, HostAt(4));
      EXPECT_TRUE(batch.summed);
    }
  }
}

// Returns the batches into which `count` blocks are cut.
std::vector<size_t> EndsOf(const KvGeometry& geometry, uint64_t block_bytes, size_t count) {
  StoredBlocks stored = StoredOf(geometry);
  stored.block_bytes = block_bytes;
  const std::vector<PlannedBlock> blocks(count, {.slot = 1, .host = HostAt(1)});
  const auto plan = PlanBlocks(*EncodedForm(geometry, stored), PlanOrder::kWhole, blocks);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<size_t> ends;
  for (const BlockPlan::Batch& batch : plan->batches) ends.push_back(batch.end);
  return ends;
}

TEST(BlockPlanTest, BatchesAreBoundedInBlocksBytesAndMoves) {
  using Ends = std::vector<size_t>;
  const KvGeometry geometry = Make(testing::CrossLayerLayout).geometry;
  EXPECT_EQ(EndsOf(geometry, 4096, 0), Ends());
  EXPECT_EQ(EndsOf(geometry, 4096, kMaxBatchBlocks), Ends{kMaxBatchBlocks});
  EXPECT_EQ(EndsOf(geometry, 4096, kMaxBatchBlocks + 1),
            (Ends{kMaxBatchBlocks, kMaxBatchBlocks + 1}));
  EXPECT_EQ(EndsOf(geometry, kMaxBlockBatchBytes / 2, 5), (Ends{2, 4, 5}));
  EXPECT_EQ(EndsOf(geometry, kMaxBlockBatchBytes / 2 + 1, 2), (Ends{1, 2}));
  EXPECT_EQ(EndsOf(geometry, 2 * kMaxBlockBatchBytes, 2), (Ends{1, 2})) << "at least one";
  // Planes that are not evenly spaced are one move each.
  const KvGeometry uneven =
      testing::TwinTensorsLayout(
          {.layers = 100, .slots = 2, .run_bytes = uint64_t{kTokens} * kHeads * kRow, .start = 0})
          .geometry;
  EXPECT_EQ(kMaxBlockMoves / 200, 5);
  EXPECT_EQ(EndsOf(uneven, 4096, 11), (Ends{5, 10, 11}));
}

TEST(BlockPlanTest, LayersGoInGroups) {
  // One layer of two blocks is a quarter of a group.
  const KvGeometry geometry =
      testing::PairedLayout(
          {.layers = 11, .slots = 2, .run_bytes = kMinLayerGroupBytes / 16, .start = 0})
          .geometry;
  const BlockForm form = RawForm(geometry);
  const std::vector<PlannedBlock> blocks = {{.slot = 1, .host = HostAt(0)},
                                            {.slot = 0, .host = HostAt(1)}};
  const auto plan = PlanBlocks(form, PlanOrder::kLayerWise, blocks);
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<uint32_t> complete;
  for (const BlockPlan::Batch& batch : plan->batches) complete.push_back(batch.layers_complete);
  EXPECT_EQ(complete, (std::vector<uint32_t>{4, 11})) << "what is left over goes with the last";
  EXPECT_EQ(plan->transfers[2].host, HostAt(0) + 4 * geometry.layer_bytes());
  // Encoded blocks have no layers.
  BlockForm encoded = form;
  encoded.codec = Codec::kInt8;
  EXPECT_EQ(PlanBlocks(encoded, PlanOrder::kLayerWise, blocks)->groups.size(), 1);
}

TEST(BlockPlanTest, WhatDoesNotFitIsNamed) {
  const KvGeometry geometry = Make(testing::PairedLayout).geometry;
  const auto expect_shape = [&geometry](const std::string& message, auto change) {
    StoredBlocks stored = StoredOf(geometry);
    change(stored);
    const absl::Status status = EncodedForm(geometry, stored).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect_shape("axes is 1; must be the geometry's, 2", [](auto& stored) { stored.shape.axes = 1; });
  expect_shape("layers is 4; must be the geometry's, 3",
               [](auto& stored) { stored.shape.layers = 4; });
  expect_shape("tokens or kv_heads is 0", [](auto& stored) { stored.shape.tokens = 0; });
  expect_shape("row_bytes is 0", [](auto& stored) { stored.row_bytes = 0; });
  expect_shape("row_bytes is 33", [](auto& stored) { stored.row_bytes = 33; });
  expect_shape("row_bytes is 32; must be so that run_bytes of the geometry, 384, are 9 rows",
               [](auto& stored) { stored.shape.tokens = 3; });
  const auto expect_blocks = [&geometry](const std::string& message, const PlannedBlock& wrong) {
    const std::vector<PlannedBlock> blocks = {{.slot = 4, .host = HostAt(0)}, wrong};
    const absl::Status status = PlanBlocks(RawForm(geometry), PlanOrder::kWhole, blocks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect_blocks("blocks[1].slot is 5; must be below 5", {.slot = 5, .host = HostAt(0)});
  expect_blocks("blocks[1].host is null", {.slot = 0});
}

}  // namespace
}  // namespace kvtier
