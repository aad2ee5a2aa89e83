// The benchmark's race stress can see both bugs of the field, and sees nothing where there
// is nothing.
#include "bench/block_races.h"

#include <gtest/gtest.h>

#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

RaceCounts Stress(RaceEdges edges, uint64_t seed, int rounds = 50) {
  const auto compute = EmulatedStepCompute(seed);
  BlockRaces races(compute.get(), edges, seed);
  for (int i = 0; i < rounds; ++i) races.Round();
  return races.Finish();
}

TEST(BlockRacesTest, WithTheEdgesNoWordIsWrongOnAnySeed) {
  const uint64_t first = testing::TestSeed();
  for (uint64_t seed = first; seed < first + 20; ++seed) {
    const RaceCounts counts = Stress({}, seed);
    ASSERT_EQ(counts.wrong(), 0u) << "seed " << seed;
    // Four blocks of 16 KiB stored and four loaded a round, all of them looked at.
    EXPECT_EQ(counts.words, counts.rounds * 8 * (16 << 10) / 8);
  }
}

TEST(BlockRacesTest, FewerRoundsThanAreOnTheirWayAtOnceAreLookedAt) {
  for (const int rounds : {1, 2, 3}) {
    const RaceCounts counts = Stress({}, 1, rounds);
    EXPECT_EQ(counts.wrong(), 0u);
    EXPECT_EQ(counts.words, static_cast<uint64_t>(rounds) * 8 * (16 << 10) / 8);
  }
}

TEST(BlockRacesTest, AStoreThatDoesNotAwaitItsWriterIsSeen) {
  const RaceCounts counts = Stress({.before_store = false}, testing::TestSeed());
  EXPECT_GT(counts.wrong_stored, 0u);
  EXPECT_EQ(counts.wrong_loaded, 0u);
  EXPECT_GT(counts.unordered, 0u);
}

TEST(BlockRacesTest, ALoadThatDoesNotAwaitItsReadersIsSeen) {
  const RaceCounts counts = Stress({.before_load = false}, testing::TestSeed());
  EXPECT_EQ(counts.wrong_stored, 0u);
  EXPECT_GT(counts.wrong_loaded, 0u);
  EXPECT_GT(counts.unordered, 0u);
}

TEST(BlockRacesTest, WithoutBothEdgesItStillEnds) {
  const RaceCounts counts = Stress({.before_store = false, .before_load = false}, 1, 500);
  EXPECT_GT(counts.wrong_stored, 0u);
  EXPECT_GT(counts.wrong_loaded, 0u);
}

}  // namespace
}  // namespace kvtier::bench
