#include "tier_disk/admission/seen_keys.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "tests/testing/test_seed.h"

namespace kvtier {
namespace {

constexpr uint64_t kBytes = 4096;

BlockKey RandomKey(std::mt19937_64* random) { return {.hi = (*random)(), .lo = (*random)()}; }

TEST(SeenKeysTest, RemembersAtOnce) {
  SeenKeys seen(kMinSeenBytes);
  const BlockKey key{.hi = 7, .lo = 9};
  EXPECT_FALSE(seen.Contains(key));
  seen.Add(key);
  EXPECT_TRUE(seen.Contains(key));
}

TEST(SeenKeysTest, TheLastKeysAreKnownForCertain) {
  std::mt19937_64 random(testing::TestSeed());
  SeenKeys seen(kBytes);
  std::deque<BlockKey> last;
  for (uint64_t i = 0; i < 10 * seen.remembered_keys(); ++i) {
    last.push_back(RandomKey(&random));
    seen.Add(last.back());
    if (last.size() > seen.remembered_keys()) last.pop_front();
    EXPECT_TRUE(seen.Contains(last.front()));
  }
}

TEST(SeenKeysTest, OldKeysAreForgotten) {
  std::mt19937_64 random(testing::TestSeed());
  SeenKeys seen(kBytes);
  std::vector<BlockKey> old;
  for (int i = 0; i < 1000; ++i) old.push_back(RandomKey(&random));
  for (const BlockKey& key : old) seen.Add(key);
  for (uint64_t i = 0; i < 3 * seen.remembered_keys(); ++i) seen.Add(RandomKey(&random));
  int known = 0;
  for (const BlockKey& key : old) known += seen.Contains(key) ? 1 : 0;
  EXPECT_LT(known, 50);  // The filters are wrong for 2 in 100 by chance; the bound has a margin.
}

TEST(SeenKeysTest, FewKeysAreTakenForOthers) {
  std::mt19937_64 random(testing::TestSeed());
  SeenKeys seen(1 << 16);
  for (uint64_t i = 0; i < 2 * seen.remembered_keys(); ++i) seen.Add(RandomKey(&random));
  int known = 0;
  for (int i = 0; i < 10000; ++i) known += seen.Contains(RandomKey(&random)) ? 1 : 0;
  EXPECT_LT(known, 300);  // Two full filters: 1.6 in 100 expected.
}

TEST(SeenKeysTest, AKeyAddedAgainTakesNoRoom) {
  std::mt19937_64 random(testing::TestSeed());
  SeenKeys seen(kBytes);
  const BlockKey first = RandomKey(&random);
  const BlockKey hot = RandomKey(&random);
  seen.Add(first);
  for (uint64_t i = 0; i < 5 * seen.remembered_keys(); ++i) seen.Add(hot);
  EXPECT_TRUE(seen.Contains(first));
}

}  // namespace
}  // namespace kvtier
