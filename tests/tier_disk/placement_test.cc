#include "tier_disk/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "tests/testing/test_seed.h"
#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

constexpr int kKeys = 1'000'000;
constexpr uint64_t kTiB = uint64_t{1} << 40;

DiskShare Share(uint64_t number, uint64_t capacity_bytes) {
  return {.id = testing::TestDiskId(number * 0x1234567, ~number), .capacity_bytes = capacity_bytes};
}

class Keys {
 public:
  explicit Keys(uint64_t seed) : random_(seed) {}
  BlockKey Next() { return {.hi = random_(), .lo = random_()}; }

 private:
  std::mt19937_64 random_;
};

std::vector<int> CountShares(const Placement& placement, size_t disks, Keys keys) {
  std::vector<int> counts(disks);
  for (int i = 0; i < kKeys; ++i) ++counts[placement.Preferred(keys.Next())];
  return counts;
}

// The smallest share is 1/9 of 1e6 keys: a standard deviation of 0.28 %. So 2 % is seven of them,
// and a false alarm comes once in 1e11 runs.
TEST(PlacementTest, SharesFollowTheCapacities) {
  const std::vector<uint64_t> capacities = {kTiB, 2 * kTiB, 4 * kTiB, kTiB, kTiB};
  std::vector<DiskShare> disks;
  for (size_t i = 0; i < capacities.size(); ++i) disks.push_back(Share(i + 1, capacities[i]));
  const std::vector<int> counts =
      CountShares(Placement(disks), disks.size(), Keys(testing::TestSeed()));
  for (size_t i = 0; i < disks.size(); ++i) {
    const double expected = kKeys * static_cast<double>(capacities[i]) / (9.0 * kTiB);
    EXPECT_NEAR(counts[i], expected, expected * 0.02) << i;
  }
}

// Keys that differ in few bits must spread as well as random ones.
TEST(PlacementTest, ConsecutiveKeysAreSpreadToo) {
  const Placement placement({Share(1, kTiB), Share(2, kTiB)});
  int first = 0;
  for (uint64_t i = 0; i < kKeys; ++i) {
    first += placement.Preferred({.hi = 0, .lo = i}) == 0 ? 1 : 0;
  }
  EXPECT_NEAR(first, kKeys * 0.5, kKeys * 0.01);
}

TEST(PlacementTest, RemovingADiskMovesOnlyItsBlocksAndToTheirSecondChoice) {
  const Placement all({Share(1, kTiB), Share(2, 3 * kTiB), Share(3, 2 * kTiB)});
  const Placement without({Share(1, kTiB), Share(3, 2 * kTiB)});
  const std::vector<size_t> before_of = {0, 2};  // Index in `all`.
  Keys keys(testing::TestSeed());
  for (int i = 0; i < 100'000; ++i) {
    const BlockKey key = keys.Next();
    const std::vector<size_t> order = all.Order(key);
    const size_t expected = order[0] == 1 ? order[1] : order[0];
    ASSERT_EQ(before_of[without.Preferred(key)], expected) << key.ToHex();
  }
}

TEST(PlacementTest, AddingADiskMovesItsShareAndNothingElse) {
  const Placement before({Share(1, kTiB), Share(2, 3 * kTiB)});
  const Placement after({Share(1, kTiB), Share(2, 3 * kTiB), Share(3, kTiB)});
  Keys keys(testing::TestSeed());
  int moved = 0;
  for (int i = 0; i < kKeys; ++i) {
    const BlockKey key = keys.Next();
    const size_t now = after.Preferred(key);
    if (now == before.Preferred(key)) continue;
    ++moved;
    ASSERT_EQ(now, 2) << key.ToHex();
  }
  EXPECT_NEAR(moved, kKeys * 0.2, kKeys * 0.2 * 0.02);
}

TEST(PlacementTest, OrderNamesEachDiskOnceAndThePreferredFirst) {
  const Placement placement({Share(1, kTiB), Share(2, 3 * kTiB), Share(3, 1), Share(4, kTiB)});
  Keys keys(testing::TestSeed());
  for (int i = 0; i < 10'000; ++i) {
    const BlockKey key = keys.Next();
    std::vector<size_t> order = placement.Order(key);
    ASSERT_EQ(order.front(), placement.Preferred(key));
    std::sort(order.begin(), order.end());
    ASSERT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
  }
}

TEST(PlacementTest, ThePlaceInTheListDoesNotMatter) {
  const std::vector<DiskShare> disks = {Share(1, kTiB), Share(2, 3 * kTiB), Share(3, 2 * kTiB)};
  const Placement placement(disks);
  const Placement reversed({disks[2], disks[1], disks[0]});
  Keys keys(testing::TestSeed());
  for (int i = 0; i < 10'000; ++i) {
    const BlockKey key = keys.Next();
    ASSERT_EQ(2 - reversed.Preferred(key), placement.Preferred(key));
  }
}

TEST(PlacementTest, OneDiskGetsEverything) {
  const Placement placement({Share(7, 1)});
  EXPECT_EQ(placement.Preferred({.hi = 1, .lo = 2}), 0);
  EXPECT_EQ(placement.Order({.hi = 1, .lo = 2}), std::vector<size_t>{0});
}

// The answers are fixed for ever: with other answers every block that is put again would change its
// disk. They were computed a second time in Python, from the formula in the header.
TEST(PlacementTest, AnswersAreTheSameInEveryProcess) {
  const Placement placement({Share(1, kTiB), Share(2, 2 * kTiB), Share(3, 3 * kTiB)});
  std::string answers;
  for (uint64_t i = 0; i < 16; ++i) {
    for (const size_t disk : placement.Order({.hi = i << 60, .lo = i * 12345})) {
      answers += static_cast<char>('0' + disk);
    }
    answers += ' ';
  }
  EXPECT_EQ(answers, "210 102 120 021 201 210 120 201 021 201 102 120 201 120 201 210 ");
}

TEST(PlacementTest, ADiskIdIsWrittenAs32Digits) {
  EXPECT_EQ(testing::TestDiskId(0xabc, 1).ToHex(), "0000000000000abc0000000000000001");
}

}  // namespace
}  // namespace kvtier
