// Runs copies and compute under the access checker, and re-creates two known bugs of other systems
// by leaving out the waits that order them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/testing/from_environment.h"
#include "tests/testing/patience.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_gpu/gpu_world.h"

namespace kvtier {
namespace {

using ::testing::IsEmpty;

uint64_t SeedCount() {
  return testing::FromEnvironment("KVTIER_ORDER_SEEDS", testing::kSanitized ? 100 : 1000);
}

TEST(GpuOrderTest, NoAccessIsUnorderedAndNoTokenIsWrongOnAnySeed) {
  const uint64_t first = testing::TestSeed();
  GpuWorld::Counts sum;
  for (uint64_t seed = first; seed < first + SeedCount(); ++seed) {
    GpuWorld world(seed, {});
    world.Run();
    ASSERT_THAT(world.races(), IsEmpty()) << "seed " << seed;
    ASSERT_EQ(world.wrong_tokens(), 0u) << "seed " << seed;
    const GpuWorld::Counts& one = world.counts();
    sum.steps += one.steps;
    sum.copies_on_write += one.copies_on_write;
    sum.forks += one.forks;
    sum.offloads += one.offloads;
    sum.onboards += one.onboards;
    sum.swaps_out += one.swaps_out;
    sum.swaps_in += one.swaps_in;
    sum.crashes += one.crashes;
    sum.declined += one.declined;
  }
  std::printf(
      "steps %lu, declined %lu, copies on write %lu, forks %lu, offloads %lu, onboards %lu, "
      "swapped out "
      "%lu, in %lu, crashes %lu\n",
      sum.steps, sum.declined, sum.copies_on_write, sum.forks, sum.offloads, sum.onboards,
      sum.swaps_out, sum.swaps_in, sum.crashes);
  // A world in which nothing happens proves nothing.
  for (const uint64_t count : {sum.copies_on_write, sum.forks, sum.offloads, sum.onboards,
                               sum.swaps_out, sum.swaps_in, sum.crashes}) {
    EXPECT_GT(count, SeedCount() / 20);
  }
}

// Findings in 20 worlds that leave out a wait: whether the race was found, and whether tokens were
// wrong.
struct Caught {
  bool race = false;
  bool wrong_tokens = false;
};
Caught RunWith(LeftOut left_out, const std::string& race, const std::string& against) {
  Caught caught;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    GpuWorld world(seed, left_out);
    world.Run();
    for (const std::string& found : world.races()) {
      caught.race |= found.starts_with(race) && found.find(against) != std::string::npos;
    }
    caught.wrong_tokens |= world.wrong_tokens() > 0;
  }
  return caught;
}

// A store reads blocks that the compute is still writing.
TEST(GpuOrderTest, AnOffloadThatDoesNotWaitForItsWriterIsCaught) {
  const Caught caught = RunWith({.wait_for_writer = true}, "the read by the agent's offload",
                                "not ordered after the write by worker");
  EXPECT_TRUE(caught.race);
  EXPECT_TRUE(caught.wrong_tokens);
}

// A load writes a block that the previous step is still reading.
TEST(GpuOrderTest, AReuseThatDoesNotWaitForReadersIsCaught) {
  const Caught caught = RunWith({.wait_for_readers = true}, "the write by the agent's onboard",
                                "not ordered after the read by worker");
  EXPECT_TRUE(caught.race);
  EXPECT_TRUE(caught.wrong_tokens);
}

}  // namespace
}  // namespace kvtier
