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

// Of a layout of three layers: rows are those of its runs.
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
      const PlannedBlock block = {.slot = 3, .host = HostAt(0)};
      const auto plan = PlanBlocks(layout.geometry, stored, {&block, 1});
      ASSERT_TRUE(plan.ok()) << plan.status();
      const bool fused = layout.geometry.axes == KvAxes::kFused;
      for (int i = 0; i < 100; ++i) {
        const uint64_t layer = random() % 3;
        const uint64_t axis = random() % stored.shape.axes;
        const uint64_t token = random() % kTokens;
        const uint64_t head = random() % kHeads;
        // The formula: the run of the layout, and inside it the row.
        const uint64_t row =
            order == KvOrder::kTokenHead ? token * kHeads + head : head * kTokens + token;
        const uint64_t expected =
            layout.address(layer, fused ? 0 : axis, 3) + (fused ? 2 * row + axis : row) * kRow;
        const BlockGeometry& geometry = plan->geometry;
        EXPECT_EQ(plan->blocks[0].device_offset +
                      geometry.planes[layer * stored.shape.axes + axis] +
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
    const StoredBlocks stored = StoredOf(layout.geometry);
    std::vector<PlannedBlock> blocks;
    blocks.reserve(5);
    for (uint32_t i = 0; i < 5; ++i) blocks.push_back({.slot = i, .host = HostAt(i)});
    const auto plan = PlanBlocks(layout.geometry, stored, blocks);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ASSERT_EQ(plan->ends.size(), 1);
    BlockBatch batch = plan->Batch(0, stored, CopyDirection::kDeviceToHost);
    batch.region = region->get();
    EXPECT_EQ(CheckBlocks(batch), absl::OkStatus()) << layout.name;
    EXPECT_EQ(batch.blocks.size(), 5);
    EXPECT_EQ(batch.blocks[4].host, HostAt(4));
  }
}

// The batches that `count` blocks are cut into.
std::vector<size_t> EndsOf(const KvGeometry& geometry, uint64_t block_bytes, size_t count) {
  StoredBlocks stored = StoredOf(geometry);
  stored.block_bytes = block_bytes;
  const std::vector<PlannedBlock> blocks(count, {.slot = 1, .host = HostAt(1)});
  const auto plan = PlanBlocks(geometry, stored, blocks);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->ends : std::vector<size_t>();
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
  // Planes that are not evenly spaced are a move each.
  const KvGeometry uneven =
      testing::TwinTensorsLayout(
          {.layers = 100, .slots = 2, .run_bytes = uint64_t{kTokens} * kHeads * kRow, .start = 0})
          .geometry;
  EXPECT_EQ(kMaxBlockMoves / 200, 5);
  EXPECT_EQ(EndsOf(uneven, 4096, 11), (Ends{5, 10, 11}));
}

TEST(BlockPlanTest, WhatDoesNotFitIsNamed) {
  const KvGeometry geometry = Make(testing::PairedLayout).geometry;
  const auto expect = [&geometry](const std::string& message, auto change) {
    StoredBlocks stored = StoredOf(geometry);
    std::vector<PlannedBlock> blocks = {{.slot = 0, .host = HostAt(0)},
                                        {.slot = 4, .host = HostAt(0)}};
    change(stored, blocks);
    const absl::Status status = PlanBlocks(geometry, stored, blocks).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect("axes is 1; the geometry has 2", [](auto& stored, auto&) { stored.shape.axes = 1; });
  expect("layers is 4; the geometry has 3", [](auto& stored, auto&) { stored.shape.layers = 4; });
  expect("tokens or kv_heads is 0", [](auto& stored, auto&) { stored.shape.tokens = 0; });
  expect("row_bytes is 0", [](auto& stored, auto&) { stored.row_bytes = 0; });
  expect("row_bytes is 33", [](auto& stored, auto&) { stored.row_bytes = 33; });
  expect("row_bytes is 32; run_bytes of the geometry, 384, are 9 rows",
         [](auto& stored, auto&) { stored.shape.tokens = 3; });
  expect("blocks[1].slot is 5 of 5", [](auto&, auto& blocks) { blocks[1].slot = 5; });
  expect("blocks[0].host is null", [](auto&, auto& blocks) { blocks[0].host = nullptr; });
}

}  // namespace
}  // namespace kvtier
