#include "tier_disk/log/shape_table.h"

#include <gtest/gtest.h>

namespace kvtier {
namespace {

BlockShape Shape(uint64_t length) { return {.length = length}; }

TEST(ShapeTableTest, EqualShapesShareANumber) {
  ShapeTable table;
  const ShapeId id = table.Acquire(Shape(1));
  EXPECT_EQ(table.Acquire(Shape(1)), id);
  EXPECT_NE(table.Acquire(Shape(2)), id);
  EXPECT_EQ(table.At(id), Shape(1));
  EXPECT_EQ(table.size(), 2);
}

TEST(ShapeTableTest, AnotherSpaceOfTheSameLengthIsAnotherShape) {
  ShapeTable table;
  BlockShape other = Shape(1);
  other.space.bytes[31] = 1;
  EXPECT_NE(table.Acquire(Shape(1)), table.Acquire(other));
}

TEST(ShapeTableTest, AShapeStaysUntilItsLastHolderReleasesIt) {
  ShapeTable table;
  const ShapeId id = table.Acquire(Shape(1));
  table.Acquire(Shape(1));
  table.Release(id);
  EXPECT_EQ(table.At(id), Shape(1));
  table.Release(id);
  EXPECT_EQ(table.size(), 0);
}

TEST(ShapeTableTest, AReleasedNumberIsUsedAgain) {
  ShapeTable table;
  const ShapeId first = table.Acquire(Shape(1));
  table.Release(first);
  EXPECT_EQ(table.Acquire(Shape(2)), first);
  EXPECT_EQ(table.At(first), Shape(2));
}

TEST(ShapeTableTest, AFullTableFitsOnlyWhatItKnows) {
  ShapeTable table(3);
  for (uint64_t i = 0; i < 3; ++i) table.Acquire(Shape(i));
  EXPECT_TRUE(table.Fits(Shape(2)));
  EXPECT_FALSE(table.Fits(Shape(3)));
  table.Release(2);
  EXPECT_TRUE(table.Fits(Shape(3)));
}

}  // namespace
}  // namespace kvtier
