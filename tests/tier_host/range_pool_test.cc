#include "tier_host/range_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

TEST(RangePoolTest, IsTakenWholeAndNotAByteMore) {
  RangePool pool(100);
  EXPECT_EQ(pool.Take(101), std::nullopt);
  EXPECT_EQ(pool.Take(60), 0u);
  EXPECT_EQ(pool.Take(41), std::nullopt);
  EXPECT_EQ(pool.Take(40), 60u);
  EXPECT_EQ(pool.Take(1), std::nullopt);
  EXPECT_EQ(pool.used_bytes(), 100u);
  pool.Audit();
}

TEST(RangePoolTest, NeighboursThatAreFreedAreOneRange) {
  // These orders free the middle last, the left last, and the right last.
  for (const std::vector<uint64_t>& order :
       {std::vector<uint64_t>{0, 60, 30}, {30, 60, 0}, {0, 30, 60}}) {
    RangePool pool(90);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(pool.Take(30));
    for (const uint64_t offset : order) {
      EXPECT_EQ(pool.Take(90), std::nullopt);
      pool.Free(offset, 30);
      pool.Audit();
    }
    EXPECT_EQ(pool.Take(90), 0u);
  }
}

TEST(RangePoolTest, TakesTheSmallestRangeThatHasEnough) {
  RangePool pool(100);
  for (const uint64_t bytes : {30, 10, 20, 40}) ASSERT_TRUE(pool.Take(bytes));
  pool.Free(0, 30);
  pool.Free(40, 20);
  EXPECT_EQ(pool.Take(15), 40u);
  EXPECT_EQ(pool.Take(25), 0u);
}

TEST(RangePoolTest, APoolOfNothingHasNothing) {
  RangePool pool(0);
  EXPECT_EQ(pool.Take(1), std::nullopt);
  pool.Audit();
}

// The reference knows of each byte whether it is taken.
TEST(RangePoolTest, AsAMapOfItsBytesSays) {
  constexpr uint64_t kBytes = 512;
  std::mt19937_64 random(testing::TestSeed());
  RangePool pool(kBytes);
  std::vector<bool> taken(kBytes);
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0 && !ranges.empty()) {
      std::swap(ranges[random() % ranges.size()], ranges.back());
      const auto [offset, bytes] = ranges.back();
      ranges.pop_back();
      pool.Free(offset, bytes);
      std::fill_n(taken.begin() + static_cast<ptrdiff_t>(offset), bytes, false);
    } else {
      const uint64_t bytes = 1 + random() % 64;
      uint64_t longest = 0;
      uint64_t length = 0;
      for (const bool byte : taken) {
        length = byte ? 0 : length + 1;
        longest = std::max(longest, length);
      }
      const std::optional<uint64_t> offset = pool.Take(bytes);
      ASSERT_EQ(offset.has_value(), longest >= bytes);
      if (!offset) continue;
      for (uint64_t at = *offset; at < *offset + bytes; ++at) {
        ASSERT_FALSE(taken.at(at));
        taken[at] = true;
      }
      ranges.emplace_back(*offset, bytes);
    }
    ASSERT_EQ(pool.used_bytes(),
              static_cast<uint64_t>(std::count(taken.begin(), taken.end(), true)));
    pool.Audit();
  }
}

}  // namespace
}  // namespace kvtier
