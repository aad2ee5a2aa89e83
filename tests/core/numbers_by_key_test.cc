#include "core/numbers_by_key.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

#include "tests/testing/numbered_key.h"
#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

struct KeyedNode {
  BlockKey key;
  uint32_t next = 0;
};
using Table = NumbersByKey<KeyedNode>;

TEST(LinearHashingTest, AHashStaysInItsBucketOrGoesToTheNewOne) {
  for (size_t buckets = 1; buckets < 70; ++buckets) {
    for (uint64_t hash = 0; hash < 300; ++hash) {
      const size_t before = BucketOf(hash, buckets);
      const size_t after = BucketOf(hash, buckets + 1);
      ASSERT_LT(before, buckets);
      if (after == before) continue;
      ASSERT_EQ(before, SourceOfNext(buckets));
      ASSERT_EQ(after, buckets);
    }
  }
}

TEST(SteadyVectorTest, WhatIsInItStaysWhereItIs) {
  SteadyVector<uint64_t> numbers;
  numbers.Grow();
  const uint64_t* const first = &numbers[0];
  for (uint64_t i = 1; i < 100'000; ++i) {
    numbers.Grow();
    EXPECT_EQ(numbers[i], 0u);
    numbers[i] = i;
  }
  EXPECT_EQ(numbers.size(), 100'000u);
  EXPECT_EQ(&numbers[0], first);
  for (uint64_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], i);
}

TEST(NumbersByKeyTest, FindsWhatIsThereWhateverComesAndGoes) {
  std::mt19937_64 random(testing::TestSeed());
  SteadyVector<KeyedNode> nodes;
  Table table(&nodes);
  std::unordered_map<uint64_t, uint32_t> expected;
  EXPECT_EQ(table.Find(NumberedKey(1)), Table::kNone);
  for (uint32_t number = 0; number < 20'000; ++number) {
    nodes.Grow();
    nodes[number].key = NumberedKey(number);
    table.Insert(number);
    expected[number] = number;
    const uint64_t other = random() % (number + 1);
    if (number % 3 == 0 && expected.erase(other) > 0) table.Erase(static_cast<uint32_t>(other));
    ASSERT_EQ(table.size(), expected.size());
    if (number % 4000 != 0) continue;
    for (uint64_t i = 0; i <= number + 10; ++i) {
      ASSERT_EQ(table.Find(NumberedKey(i)) != Table::kNone, expected.contains(i)) << i;
    }
  }
  for (const auto& [key, number] : expected) ASSERT_EQ(table.Find(NumberedKey(key)), number);
}

TEST(NumbersByKeyDeathTest, WhatIsNotThereCannotBeErased) {
  SteadyVector<KeyedNode> nodes;
  nodes.Grow();
  Table table(&nodes);
  EXPECT_DEATH(table.Erase(0), "CHECK failed");
}

}  // namespace
}  // namespace kvtier
