// Tests worlds of GPU pools by the thousand: the agent's own flows under the access checker.
// KVTIER_SIM_POOL_SEEDS: how many (1000). A failure says how kvtier-sim runs its seed again.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/sim/coverage.h"
#include "tests/sim/seeds.h"
#include "tests/testing/from_environment.h"

namespace kvtier::sim {
namespace {

TEST(SimGpuPoolsTest, NoAccessIsUnorderedAndNoByteIsWrongOnAnySeed) {
  const uint64_t count = testing::FromEnvironment("KVTIER_SIM_POOL_SEEDS", 1000);
  Coverage sum;
  for (uint64_t seed = 1; seed <= count; ++seed) {
    const Outcome outcome = RunSeed({.seed = seed, .kind = WorldKind::kGpuPools});
    ASSERT_EQ(outcome.failure, "") << "seed " << seed;
    sum.Add(outcome.coverage);
  }
  sum.Print(stdout);
  if (count < 100) return;  // So few worlds may lack an event.
  // A world in which nothing happens proves nothing.
  for (const uint64_t met :
       {sum.crashes, sum.gpu_hits, sum.fetched_blocks, sum.gpu_evictions, sum.gpu_offloads,
        sum.gpu_errors, sum.gpu_abandoned, sum.declined_slots}) {
    EXPECT_GT(met, count / 20);
  }
  for (const uint64_t drawn : sum.gpu_policies) EXPECT_GT(drawn, count / 20);
}

}  // namespace
}  // namespace kvtier::sim
