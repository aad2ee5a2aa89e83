#include "core/block_lengths.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  EXPECT_EQ(RoomFor(kFixed, 10000, 1).slot_bytes, 12288u);
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
    EXPECT_EQ(SlotSizeOf(below * kKiB + 1, kSlotSizesPerDoubling), size * kKiB);
    EXPECT_EQ(SlotSizeOf(size * kKiB, kSlotSizesPerDoubling), size * kKiB);
    below = size;
  }
}

// Returns the sizes of slots for a space that may have at most `max_sizes` of them.
std::set<uint64_t> SizesOf(uint64_t longest, uint64_t max_sizes) {
  std::set<uint64_t> sizes;
  for (uint64_t bytes = kBlockAlignment; bytes <= SlotBytes(longest); bytes += kBlockAlignment) {
    const uint64_t length = std::min(bytes, longest);
    sizes.insert(RoomFor({.longest = longest, .any = true}, length, max_sizes).slot_bytes);
  }
  return sizes;
}

TEST(BlockLengths, AllLengthsTogetherHaveFewSizesOfSlots) {
  const std::set<uint64_t> sizes = SizesOf(kMaxBlockBytes, 100);
  EXPECT_EQ(sizes.size(), kMaxSlotSizes);
  EXPECT_EQ(*sizes.rbegin(), kMaxBlockBytes);
}

TEST(BlockLengths, OfASlotLessIsUnusedThanItsSizesSay) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 100000; ++i) {
    const uint64_t length = 1 + random() % kMaxBlockBytes;
    for (const uint64_t per_doubling : {4, 2, 1}) {
      const uint64_t slot = SlotSizeOf(length, per_doubling);
      ASSERT_GE(slot, SlotBytes(length));
      ASSERT_LT((per_doubling + 1) * (slot - SlotBytes(length)), slot) << length;
    }
  }
}

TEST(BlockLengths, WhereSlabsAreFewSoAreTheSizesOfSlots) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 200; ++i) {
    const uint64_t longest = 1 + random() % (uint64_t{1} << (12 + i % 12));
    const uint64_t max_sizes = 1 + random() % 60;
    const std::set<uint64_t> sizes = SizesOf(longest, max_sizes);
    ASSERT_LE(sizes.size(), max_sizes) << longest;
    ASSERT_EQ(*sizes.rbegin(), SlotBytes(longest));
  }
  EXPECT_EQ(SizesOf(20000, 1), (std::set<uint64_t>{20480}));
  EXPECT_EQ(SizesOf(20000, 2), (std::set<uint64_t>{16384, 20480}));
  EXPECT_EQ(SizesOf(20000, 3), (std::set<uint64_t>{8192, 16384, 20480}));
  EXPECT_EQ(SizesOf(64 * kKiB, 5),
            (std::set<uint64_t>{4 * kKiB, 8 * kKiB, 16 * kKiB, 32 * kKiB, 64 * kKiB}));
}

TEST(BlockLengths, TheLongestBlockAndThoseNearItHaveItsOwnPages) {
  constexpr BlockLengths kAny{.longest = 66 * kKiB, .any = true};
  EXPECT_EQ(RoomFor(kAny, 66 * kKiB, 60).slot_bytes, 68 * kKiB);
  EXPECT_EQ(RoomFor(kAny, 65 * kKiB, 60).slot_bytes, 68 * kKiB)
      << "and not the 80 KiB of their class";
  EXPECT_EQ(RoomFor(kAny, 63 * kKiB, 60).slot_bytes, 64 * kKiB);
}

// A manifest may state a wrong length of a block.
TEST(BlockLengths, ABlockThatIsLongerThanItMayBeStillFitsItsSlot) {
  constexpr BlockLengths kAny{.longest = 4096, .any = true};
  EXPECT_EQ(RoomFor(kAny, 9000, 60).slot_bytes, 12288u);
}

}  // namespace
}  // namespace kvtier
