#include "kernels/block_layout.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/layout_cases.h"

namespace kvtier::kernels {
namespace {

using testing::BlockLayouts;
using testing::ExtentOf;
using testing::Move;
using testing::NamedLayout;

constexpr KvShape kShapes[] = {
    {.layers = 3, .tokens = 16, .kv_heads = 4, .head_dim = 64},
    {.layers = 2, .tokens = 5, .kv_heads = 1, .head_dim = 48},
    {.layers = 3, .axes = 1, .tokens = 7, .kv_heads = 1, .head_dim = 576},  // Latent attention.
    {.layers = 1, .tokens = 1, .kv_heads = 3, .head_dim = 16},
};

std::vector<std::byte> Noise(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
  return noise;
}

// Moves the first `move.shape.tokens` tokens of a block of shape `whole`; no other byte may change.
void ExpectMoved(const Move& move, const KvShape& whole) {
  const std::vector<std::byte> source = Noise(ExtentOf(move.from, whole, move.row_bytes));
  std::vector<std::byte> expected(ExtentOf(move.to, whole, move.row_bytes), std::byte{0xa5});
  std::vector<std::byte> moved = expected;
  move.Plainly(source.data(), expected.data());
  const BlockMove made = MoveBetween(move.shape, move.row_bytes, move.from, move.to);
  const StridedSegment segment = made.Between(source.data(), moved.data());
  ASSERT_EQ(CopySegmentsOnHost({.segments = &segment, .count = 1, .outer = made.outer}), 0);
  EXPECT_TRUE(moved == expected);
}

TEST(BlockLayoutTest, EveryLayoutBecomesEveryOther) {
  for (const KvShape& shape : kShapes) {
    const uint64_t row = uint64_t{shape.head_dim} * 2;
    for (const NamedLayout& from : BlockLayouts(shape, row)) {
      for (const NamedLayout& to : BlockLayouts(shape, row)) {
        SCOPED_TRACE(from.name + " to " + to.name);
        ExpectMoved({shape, row, from.layout, to.layout}, shape);
      }
    }
  }
}

TEST(BlockLayoutTest, ACopyOnWriteTakesTheFirstTokensOfEachPlane) {
  const KvShape& whole = kShapes[0];
  const uint64_t row = uint64_t{whole.head_dim} * 2;
  for (const NamedLayout& layout : BlockLayouts(whole, row)) {
    for (const uint32_t tokens : {1U, 7U, 16U}) {
      SCOPED_TRACE(layout.name);
      KvShape part = whole;
      part.tokens = tokens;
      ExpectMoved({part, row, layout.layout, layout.layout}, whole);
    }
  }
}

TEST(BlockLayoutTest, WhatIsContiguousOnBothSidesIsOneRun) {
  const KvShape& shape = kShapes[0];
  const uint64_t row = uint64_t{shape.head_dim} * 2;
  const auto layouts = BlockLayouts(shape, row);
  for (size_t i = 0; i < 3; ++i) {
    const BlockLayout& layout = layouts[i].layout;
    const BlockMove whole = MoveBetween(shape, row, layout, layout);
    EXPECT_EQ(whole.segment.run_bytes, RawBytes(shape));
    EXPECT_EQ(RunsOf(whole.segment, whole.outer), 1U);
  }
  KvShape part = shape;
  part.tokens = 7;
  const BlockLayout& token_major = layouts[0].layout;
  const BlockMove some = MoveBetween(part, row, token_major, token_major);
  EXPECT_EQ(some.segment.run_bytes, 7 * row * shape.kv_heads);
  EXPECT_EQ(some.segment.runs, Planes(shape)) << "layers and axes are one axis";
  EXPECT_EQ(some.outer.count(), 1U);
  // A gather has one run for each layer if the layout has one tensor for each layer.
  const BlockMove gather = MoveBetween(shape, row, layouts[3].layout, token_major);
  EXPECT_EQ(gather.segment.run_bytes, RawBytes(shape) / shape.layers);
  EXPECT_EQ(gather.segment.runs, shape.layers);
}

TEST(BlockLayoutTest, ATransposeWritesNeighboursTogether) {
  const KvShape& shape = kShapes[0];
  const uint64_t row = uint64_t{shape.head_dim} * 2;
  const BlockMove move =
      MoveBetween(shape, row, TokenMajorLayout(shape, row), HeadMajorLayout(shape, row));
  EXPECT_EQ(move.segment.run_bytes, row);
  EXPECT_EQ(move.segment.runs, shape.tokens);
  EXPECT_EQ(move.segment.destination_stride, row);
  EXPECT_EQ(move.outer.axes[0].count, shape.kv_heads);
  EXPECT_EQ(move.outer.axes[1].count, Planes(shape));
  EXPECT_EQ(move.outer.axes[2].count, 1U);
}

}  // namespace
}  // namespace kvtier::kernels
