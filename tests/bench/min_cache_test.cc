#include "bench/policy/min_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include "tests/bench/small_traces.h"
#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

uint32_t MaskOf(const TraceRequest& request) {
  uint32_t mask = 0;
  for (const uint32_t block : request.blocks) mask |= uint32_t{1} << block;
  return mask;
}

int HitsOfMask(const TraceRequest& request, uint32_t held) {
  int hits = 0;
  for (const uint32_t block : request.blocks) {
    if ((held >> block & 1) == 0) break;
    ++hits;
  }
  return hits;
}

// Returns the most hits that any cache can have which keeps, after each request, at most `capacity`
// of the blocks that it had and those of the request.
int MostHits(const Trace& trace, int capacity) {
  constexpr int kUnreachable = -1;
  std::vector<int> best(size_t{1} << trace.parents.size(), kUnreachable);
  best[0] = 0;
  for (const TraceRequest& request : trace.requests) {
    std::vector<int> next(best.size(), kUnreachable);
    for (uint32_t held = 0; held < best.size(); ++held) {
      if (best[held] == kUnreachable) continue;
      const int hits = best[held] + HitsOfMask(request, held);
      const uint32_t all = held | MaskOf(request);
      for (uint32_t kept = all;; kept = (kept - 1) & all) {
        if (std::popcount(kept) <= capacity) next[kept] = std::max(next[kept], hits);
        if (kept == 0) break;
      }
    }
    best = std::move(next);
  }
  return std::ranges::max(best);
}

int HitsOfCache(const Trace& trace, ReplayedCache* cache) {
  int hits = 0;
  for (const TraceRequest& request : trace.requests) {
    hits += static_cast<int>(cache->Request(request));
  }
  return hits;
}

TEST(MinCacheTest, NoWayToKeepBlocksHitsMore) {
  std::mt19937_64 random(testing::TestSeed());
  for (int i = 0; i < 400; ++i) {
    const Trace trace = RandomTrace(3 + random() % 5, 4 + random() % 9, &random);
    const auto capacity = static_cast<int>(1 + random() % 4);
    MinCache cache(trace, static_cast<size_t>(capacity));
    ASSERT_EQ(HitsOfCache(trace, &cache), MostHits(trace, capacity)) << "case " << i;
  }
}

TEST(MinCacheTest, NoPolicyHitsMore) {
  std::mt19937_64 random(testing::TestSeed());
  const Trace trace = RandomTrace(300, 3000, &random);
  for (const size_t capacity : {5, 30, 100}) {
    MinCache bound(trace, capacity);
    const int most = HitsOfCache(trace, &bound);
    for (const Policy& policy : Policies()) {
      EXPECT_LE(HitsOfCache(trace, policy.make(trace, capacity, 0).get()), most) << policy.name;
    }
  }
}

// B is never used again, so it takes no block's place.
TEST(MinCacheTest, DoesNotTakeInWhatIsNeverUsedAgain) { EXPECT_EQ(HitsOf("min", 1, "ABA"), "--h"); }

}  // namespace
}  // namespace kvtier::bench
