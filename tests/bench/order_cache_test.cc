#include "bench/policy/order_cache.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/bench/small_traces.h"
#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

TEST(OrderCacheTest, HoldsEveryBlockWithItsParent) {
  std::mt19937_64 random(testing::TestSeed());
  const Trace trace = RandomTrace(300, 2000, &random);
  for (const EvictionPolicy policy : {EvictionPolicy::kLearnt, EvictionPolicy::kLru}) {
    OrderCache cache(trace.parents.size(), 40, {.policy = policy});
    for (const TraceRequest& request : trace.requests) {
      cache.Request(request);
      for (uint32_t block = 0; block < trace.parents.size(); ++block) {
        if (!cache.Contains(block) || trace.parents[block] == kNoBlock) continue;
        ASSERT_TRUE(cache.Contains(trace.parents[block])) << block;
      }
    }
  }
}

TEST(OrderCacheTest, AboveADiskEveryBlockOfARequestIsTakenIn) {
  std::mt19937_64 random(testing::TestSeed());
  const Trace trace = RandomTrace(300, 2000, &random);
  OrderCache cache(trace.parents.size(), 40, {.admitted = OrderCache::Admitted::kAll});
  for (const TraceRequest& request : trace.requests) {
    cache.Request(request);
    for (const uint32_t block : request.blocks) ASSERT_TRUE(cache.Contains(block));
  }
}

TEST(OrderCacheTest, ARequestThatDoesNotFitLeavesItsTailOut) {
  const Trace trace = TraceOf({{0, 1, 2, 3, 4}});
  OrderCache cache(trace.parents.size(), 3, {});
  EXPECT_EQ(cache.Request(trace.requests[0]), 0);
  EXPECT_EQ(cache.left(), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(cache.Request(trace.requests[0]), 3);
}

}  // namespace
}  // namespace kvtier::bench
