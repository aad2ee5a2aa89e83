#include "core/block_lengths.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr uint64_t kKiB = 1024;

TEST(BlockLengths, ABlockOfAFixedSpaceHasThatLengthAndItsPages) {
  constexpr BlockLengths kFixed{.longest = 10000};
  EXPECT_TRUE(kFixed.Allow(10000));
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, uint64_t{9999}, uint64_t{10001}}) {
    EXPECT_FALSE(kFixed.Allow(length)) << length;
  }
  EXPECT_EQ(kFixed.RoomFor(10000).slot_bytes, 12288u);
}

TEST(BlockLengths, ABlockOfAnyLengthHasOneByteToTheLongest) {
  constexpr BlockLengths kAny{.longest = 10000, .any = true};
  EXPECT_TRUE(kAny.Allow(1));
  EXPECT_TRUE(kAny.Allow(10000));
  EXPECT_FALSE(kAny.Allow(0));
  EXPECT_FALSE(kAny.Allow(10001));
}

TEST(BlockLengths, SlotsHaveFourSizesForEachDoublingOfWholePages) {
  constexpr std::array<uint64_t, 13> kSizes = {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80};
  uint64_t below = 0;
  for (const uint64_t size : kSizes) {
    EXPECT_EQ(SlotSizeClass(below * kKiB + 1), size * kKiB);
    EXPECT_EQ(SlotSizeClass(size * kKiB), size * kKiB);
    below = size;
  }
}

TEST(BlockLengths, AllLengthsTogetherHaveFewSizesOfSlots) {
  std::set<uint64_t> sizes;
  for (uint64_t bytes = kBlockAlignment; bytes <= kMaxBlockBytes; bytes += kBlockAlignment) {
    sizes.insert(SlotSizeClass(bytes));
  }
  EXPECT_EQ(sizes.size(), kMaxSlotSizeClasses);
  EXPECT_EQ(*sizes.rbegin(), kMaxBlockBytes);
}

TEST(BlockLengths, LessThanAFifthOfASlotIsUnusedBeyondTheBlocksPages) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 100000; ++i) {
    const uint64_t length = 1 + random() % kMaxBlockBytes;
    const uint64_t slot = SlotSizeClass(length);
    ASSERT_GE(slot, SlotBytes(length));
    ASSERT_LT(5 * (slot - SlotBytes(length)), slot) << length;
  }
}

TEST(BlockLengths, TheLongestBlockAndThoseNearItHaveItsOwnPages) {
  constexpr BlockLengths kAny{.longest = 66 * kKiB, .any = true};
  EXPECT_EQ(kAny.RoomFor(66 * kKiB).slot_bytes, 68 * kKiB);
  EXPECT_EQ(kAny.RoomFor(65 * kKiB).slot_bytes, 68 * kKiB) << "and not the 80 KiB of their class";
  EXPECT_EQ(kAny.RoomFor(63 * kKiB).slot_bytes, 64 * kKiB);
}

// What a manifest says of a block need not be so.
TEST(BlockLengths, ABlockThatIsLongerThanItMayBeStillFitsItsSlot) {
  constexpr BlockLengths kAny{.longest = 4096, .any = true};
  EXPECT_EQ(kAny.RoomFor(9000).slot_bytes, 12288u);
}

}  // namespace
}  // namespace kvtier
