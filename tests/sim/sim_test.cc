// Runs worlds by the hundred. KVTIER_SIM_SEEDS says how many (100); KVTIER_SIM_SEED names one to
// run alone.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/sim/coverage.h"
#include "tests/sim/seeds.h"
#include "tests/testing/from_environment.h"

namespace kvtier::sim {
namespace {

TEST(SimTest, EveryWorldKeepsItsPromises) {
  uint64_t first = 1;
  uint64_t count = testing::FromEnvironment("KVTIER_SIM_SEEDS", 100);
  if (std::getenv("KVTIER_SIM_SEED") != nullptr) {
    first = testing::FromEnvironment("KVTIER_SIM_SEED", 1);
    count = 1;
  }
  Coverage coverage;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Outcome outcome = RunSeed({.seed = seed});
    ASSERT_EQ(outcome.failure, "") << "KVTIER_SIM_SEED=" << seed;
    coverage.Add(outcome.coverage);
  }
  if (count < 100) return;  // So few worlds may lack an event.
  for (const auto& [name, met] : coverage.Counts()) {
    EXPECT_GT(met, 0u) << "no world came upon: " << name;
  }
}

TEST(SimTest, ASeedTellsTheSameStoryTwice) {
  for (const uint64_t seed : {7, 8, 9}) {
    const Outcome once = RunSeed({.seed = seed});
    const Outcome again = RunSeed({.seed = seed});
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
  }
}

TEST(SimTest, TwoSeedsTellTwoStories) {
  EXPECT_NE(RunSeed({.seed = 7}).hash, RunSeed({.seed = 8}).hash);
}

}  // namespace
}  // namespace kvtier::sim
