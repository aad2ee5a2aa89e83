#include "core/aside_blocks.h"

#include <gtest/gtest.h>

#include <optional>

namespace kvtier {
namespace {

constexpr auto kAny = [](uint32_t) { return true; };

TEST(AsideBlocksTest, LeaveInTheOrderOfSettingAsideWithinTheirGroupAndOverall) {
  AsideBlocks aside;
  EXPECT_EQ(aside.First(kAny), std::nullopt);
  EXPECT_EQ(aside.First(3, kAny), std::nullopt);
  aside.Add(10, 1, AsideBlocks::kNoBlock);
  aside.Add(5, 0, AsideBlocks::kNoBlock);
  aside.Add(7, 1, AsideBlocks::kNoBlock);
  EXPECT_EQ(aside.First(kAny), 10u);
  EXPECT_EQ(aside.First(0, kAny), 5u);
  EXPECT_EQ(aside.First(1, kAny), 10u);
  EXPECT_EQ(aside.First(1, [](uint32_t number) { return number != 10; }), 7u);
  EXPECT_EQ(aside.First([](uint32_t number) { return number != 10; }), 5u);
  EXPECT_EQ(aside.size(), 3u);
  EXPECT_EQ(aside.size(1), 2u);
  aside.Remove(10, 1, AsideBlocks::kNoBlock);
  EXPECT_EQ(aside.First(1, kAny), 7u);
  EXPECT_FALSE(aside.Contains(10, 1));
  EXPECT_TRUE(aside.Contains(7, 1));
  EXPECT_FALSE(aside.Contains(7, 0));
}

TEST(AsideBlocksTest, CountsTheChildrenOfABlock) {
  AsideBlocks aside;
  aside.Add(2, 0, 1);
  aside.Add(3, 0, 1);
  aside.Add(4, 0, 3);
  EXPECT_EQ(aside.ChildrenOf(1), 2u);
  EXPECT_EQ(aside.ChildrenOf(3), 1u);
  EXPECT_EQ(aside.ChildrenOf(2), 0u);
  aside.Remove(3, 0, 1);
  EXPECT_EQ(aside.ChildrenOf(1), 1u);
}

}  // namespace
}  // namespace kvtier
