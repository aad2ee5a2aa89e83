#include "agent/index/evicted_keys.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "core/block_key.h"

namespace kvtier {
namespace {

BlockKey Key(uint64_t number) { return {.hi = 7, .lo = number}; }

TEST(EvictedKeys, RemembersTheLatestAndForgetsTheOldest) {
  EvictedKeys keys(/*limit=*/3);
  for (uint64_t i = 1; i <= 4; ++i) keys.Add(Key(i));
  EXPECT_FALSE(keys.Contains(Key(1)));
  for (uint64_t i = 2; i <= 4; ++i) EXPECT_TRUE(keys.Contains(Key(i))) << i;
}

TEST(EvictedKeys, ABlockThatLeftTwiceIsRememberedAsLongAsTheLaterTime) {
  EvictedKeys keys(/*limit=*/2);
  keys.Add(Key(1));
  keys.Add(Key(1));
  keys.Add(Key(2));
  EXPECT_TRUE(keys.Contains(Key(1)));
  keys.Add(Key(3));
  EXPECT_FALSE(keys.Contains(Key(1)));
}

}  // namespace
}  // namespace kvtier
