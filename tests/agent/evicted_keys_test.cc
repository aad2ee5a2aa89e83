#include "agent/index/evicted_keys.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "tests/testing/numbered_key.h"

namespace kvtier {
namespace {

using testing::NumberedKey;

TEST(EvictedKeys, RemembersTheLatestAndForgetsTheOldest) {
  EvictedKeys keys(/*limit=*/3);
  for (uint64_t i = 1; i <= 4; ++i) keys.Add(NumberedKey(i));
  EXPECT_FALSE(keys.Contains(NumberedKey(1)));
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_TRUE(keys.Contains(NumberedKey(i))) << i;
}

TEST(EvictedKeys, ABlockThatLeftTwiceIsRememberedAsLongAsTheLaterTime) {
  EvictedKeys keys(/*limit=*/2);
  keys.Add(NumberedKey(1));
  keys.Add(NumberedKey(1));
  keys.Add(NumberedKey(2));
  EXPECT_TRUE(keys.Contains(NumberedKey(1)));
  keys.Add(NumberedKey(3));
  EXPECT_FALSE(keys.Contains(NumberedKey(1)));
}

}  // namespace
}  // namespace kvtier
