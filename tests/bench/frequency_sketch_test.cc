#include "bench/policy/frequency_sketch.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

TEST(FrequencySketchTest, NeverSaysLessThanWasCounted) {
  std::mt19937_64 random(testing::TestSeed());
  FrequencySketch sketch(1000);
  std::vector<int> counts(2000, 0);
  for (int i = 0; i < 9000; ++i) {
    const auto block = static_cast<uint32_t>(random() % counts.size());
    sketch.Count(block);
    ++counts[block];
  }
  int exact = 0;
  for (uint32_t block = 0; block < counts.size(); ++block) {
    ASSERT_GE(sketch.EstimateOf(block), std::min<int>(counts[block], FrequencySketch::kMaxCount));
    if (sketch.EstimateOf(block) == counts[block]) ++exact;
  }
  EXPECT_GT(exact, 1500);
}

TEST(FrequencySketchTest, HalvesItsCountsAfterTenUsesForEachBlock) {
  FrequencySketch sketch(2);
  for (int i = 0; i < 19; ++i) sketch.Count(7);
  EXPECT_EQ(sketch.EstimateOf(7), FrequencySketch::kMaxCount);
  sketch.Count(7);
  EXPECT_EQ(sketch.EstimateOf(7), FrequencySketch::kMaxCount / 2);
}

}  // namespace
}  // namespace kvtier::bench
