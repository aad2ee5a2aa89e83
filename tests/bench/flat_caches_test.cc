#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <set>
#include <string>

#include "bench/policy/lru_cache.h"
#include "tests/bench/small_traces.h"
#include "tests/core/numbered_order.h"
#include "tests/testing/test_seed.h"

namespace kvtier::bench {
namespace {

constexpr char kScan[] = "abcdefghijklmnopqrst";

TEST(FlatCachesTest, FifoEvictsWhatCameFirst) { EXPECT_EQ(HitsOf("fifo", 2, "ABACA"), "--h--"); }

TEST(FlatCachesTest, LruEvictsWhatWasUsedLeastRecently) {
  EXPECT_EQ(HitsOf("lru", 2, "ABACAB"), "--h-h-");
}

// The hand clears A's mark and evicts B, then C, then D: survivors keep their place.
TEST(FlatCachesTest, SieveEvictsTheFirstBlockWithoutAMarkFromItsHandOn) {
  EXPECT_EQ(HitsOf("sieve", 3, "ABCADBACA"), "---h--h-h");
}

TEST(FlatCachesTest, S3FifoPromotesWhatIsUsedTwiceInTheSmallQueue) {
  EXPECT_EQ(HitsOf("s3_fifo", 10, std::string("AAA") + kScan + "A").back(), 'h');
  EXPECT_EQ(HitsOf("s3_fifo", 10, std::string("AA") + kScan + "A").back(), '-');
  EXPECT_EQ(HitsOf("lru", 10, std::string("AAA") + kScan + "A").back(), '-');
}

// A is evicted when the eleventh block, k, comes. A comes back and outlives the rest of the scan.
TEST(FlatCachesTest, S3FifoPutsWhatComesBackIntoTheMainQueue) {
  EXPECT_EQ(HitsOf("s3_fifo", 10, "AabcdefghijkAlmnopqrstuvwxyzA"),
            "----------------------------h");
}

TEST(FlatCachesTest, WTinyLfuKeepsAFrequentBlockThroughAScan) {
  const std::string often = "AAAABBBB";
  EXPECT_EQ(HitsOf("w_tiny_lfu", 4, often + kScan + "AB"),
            "-hhh-hhh" + std::string(20, '-') + "hh");
}

// A block of the scan gets into the window only, and the next one takes its place there.
TEST(FlatCachesTest, WTinyLfuRefusesWhatIsLessFrequentThanItsVictim) {
  EXPECT_EQ(HitsOf("w_tiny_lfu", 2, "AAAbcbcA"), "-hh----h");
}

TEST(FlatCachesTest, LruIsTheOrderOfEvictionByTheSameName) {
  std::mt19937_64 random(testing::TestSeed());
  for (const size_t capacity : {1, 3, 20, 60}) {
    const Trace trace = RandomTrace(100, 2000, &random);
    LruCache cache(trace.parents.size(), capacity);
    NumberedOrder order(EvictionPolicy::kLru);
    for (const TraceRequest& request : trace.requests) {
      cache.Request(request);
      for (const uint32_t block : request.blocks) {
        if (order.Contains(block)) continue;
        const uint32_t parent = trace.parents[block];
        order.Insert(block, parent == kNoBlock ? std::nullopt : std::optional<uint64_t>(parent));
      }
      for (auto block = request.blocks.rbegin(); block != request.blocks.rend(); ++block) {
        order.Touch(*block);
      }
      while (order->size() > capacity) order.Erase(*order.Victim());
      for (uint32_t block = 0; block < trace.parents.size(); ++block) {
        ASSERT_EQ(cache.Contains(block), order.Contains(block)) << block;
      }
    }
  }
}

// Checks the promises of ReplayedCache for every policy.
TEST(FlatCachesTest, EveryPolicyCountsWhatItTakesInAndNamesWhatLeaves) {
  std::mt19937_64 random(testing::TestSeed());
  const Trace trace = RandomTrace(200, 1500, &random);
  for (const Policy& policy : Policies()) {
    for (const size_t capacity : {1, 7, 50}) {
      SCOPED_TRACE(std::string(policy.name) + " " + std::to_string(capacity));
      const auto cache = policy.make(trace, capacity, 0);
      std::set<uint32_t> held;
      uint64_t insertions = 0;
      for (const TraceRequest& request : trace.requests) {
        cache->Request(request);
        const std::set<uint32_t> before = held;
        held.insert(request.blocks.begin(), request.blocks.end());
        for (const uint32_t block : cache->left()) held.erase(block);
        for (const uint32_t block : held) insertions += before.contains(block) ? 0 : 1;
        ASSERT_EQ(cache->size(), held.size());
        ASSERT_LE(held.size(), capacity);
        for (const uint32_t block : held) ASSERT_TRUE(cache->Contains(block)) << block;
      }
      EXPECT_EQ(cache->insertions(), insertions);
    }
  }
}

}  // namespace
}  // namespace kvtier::bench
