#include "bench/policy/replay.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "bench/policy/lru_cache.h"

namespace kvtier::bench {
namespace {

TEST(ReplayTest, APartialLastBlockHitsItsOwnTokensOnly) {
  TraceBuilder builder("partial");
  const std::vector<uint64_t> blocks = {1, 2, 3};
  ASSERT_TRUE(builder.Add(absl::Seconds(0), 1100, blocks).ok());
  ASSERT_TRUE(builder.Add(absl::Seconds(1), 1100, blocks).ok());
  const Trace trace = std::move(builder).Finish();
  LruCache cache(trace.parents.size(), 3);
  const ReplayedHits hits = Replay(trace, &cache);
  EXPECT_EQ(hits.tokens, 2200);
  EXPECT_EQ(hits.hit_tokens, 1100);
  EXPECT_EQ(hits.insertions, 3);
  EXPECT_EQ(hits.HitPercent(), 50);
}

}  // namespace
}  // namespace kvtier::bench
