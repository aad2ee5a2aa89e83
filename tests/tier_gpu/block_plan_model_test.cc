// Tests that, whatever the layout, the slots and the order, a plan moves every run of every block
// exactly once to the place that the layout's formula gives, within every limit, and that no batch
// says that a layer is complete before it is.
//
// KVTIER_PLAN_DRAWS sets the number of plans, KVTIER_TEST_SEED replays the draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "tests/testing/from_environment.h"
#include "tests/testing/test_seed.h"
#include "tests/tier_gpu/plan_layouts.h"
#include "tier_gpu/plan/block_plan.h"

namespace kvtier {
namespace {

using testing::kLayouts;
using testing::Layout;
using testing::LayoutSize;

constexpr uint64_t kDefaultDraws = 3000;
// The test uses addresses only: nothing is read or written.
std::byte* const kHost = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);  // NOLINT

struct Job {
  Layout layout{};
  std::vector<PlannedBlock> blocks{};
  PlanOrder order{};
};

class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}

  Job Next(uint64_t most_run_bytes, uint32_t most_slots) {
    const LayoutSize size = {.layers = Number(1, 6),
                             .slots = Number(1, most_slots),
                             .run_bytes = 1 + random_() % most_run_bytes,
                             .start = uint64_t{64} * Number(0, 100)};
    Job job = {.layout = kLayouts[random_() % kLayouts.size()](size),
               .order = static_cast<PlanOrder>(Number(0, 1))};
    std::vector<uint32_t> slots(size.slots);
    std::iota(slots.begin(), slots.end(), 0);
    std::ranges::shuffle(slots, random_);
    slots.resize(Number(1, size.slots));
    for (const uint32_t slot : slots) {
      job.blocks.push_back({.slot = slot, .host = kHost + slot * (uint64_t{64} << 20)});
    }
    return job;
  }

 private:
  uint32_t Number(uint32_t low, uint32_t high) {
    return static_cast<uint32_t>(low + random_() % (high - low + 1));
  }
  std::mt19937_64 random_;
};

// Returns the device offset of each run of the job, by the run's address in host memory, as the
// layout's formula gives it.
std::map<std::byte*, uint64_t> RunsOf(const Job& job) {
  const KvGeometry& geometry = job.layout.geometry;
  std::map<std::byte*, uint64_t> runs;
  for (const PlannedBlock& block : job.blocks) {
    std::byte* host = block.host;
    for (uint32_t layer = 0; layer < geometry.layers; ++layer) {
      for (uint32_t axis = 0; axis < geometry.axis_count(); ++axis, host += geometry.run_bytes) {
        runs[host] = job.layout.address(layer, axis, block.slot);
      }
    }
  }
  return runs;
}

void ExpectWithinLimits(const BlockPlan& plan, const BlockBatch& batch) {
  ASSERT_LE(batch.blocks.size(), kMaxBatchBlocks);
  ASSERT_LE(batch.blocks.size() * RowMoves::Of(*batch.geometry).pieces.size(), kMaxBlockMoves);
  ASSERT_TRUE(batch.blocks.size() == 1 ||
              batch.blocks.size() * batch.block_bytes <= kMaxBlockBatchBytes);
  ASSERT_EQ(batch.block_bytes, batch.geometry->raw_bytes());
  ASSERT_EQ(batch.summed, plan.groups.size() == 1) << "a part of a block has no sum";
}

void ExpectEveryRunOnce(const Job& job, const BlockPlan& plan) {
  std::map<std::byte*, uint64_t> left = RunsOf(job);
  const uint64_t run_bytes = job.layout.geometry.run_bytes;
  const uint64_t layer_bytes = job.layout.geometry.layer_bytes();
  uint32_t complete = 0;
  for (size_t i = 0; i < plan.batches.size(); ++i) {
    const BlockBatch batch = plan.BatchOf(i, CopyDirection::kHostToDevice);
    ExpectWithinLimits(plan, batch);
    for (const BlockTransfer& block : batch.blocks) {
      std::byte* host = block.host;
      for (const uint64_t plane : batch.geometry->planes) {
        const auto run = left.find(host);
        ASSERT_NE(run, left.end()) << "no run, or one that was moved already";
        ASSERT_EQ(run->second, block.device_offset + plane);
        left.erase(run);
        host += run_bytes;
      }
    }
    ASSERT_GE(plan.batches[i].layers_complete, complete);
    complete = plan.batches[i].layers_complete;
    for (const auto& [host, offset] : left) {
      const auto block = static_cast<uint64_t>(host - kHost) % (uint64_t{64} << 20);
      ASSERT_GE(block / layer_bytes, complete) << "a layer is said to be complete too early";
    }
  }
  ASSERT_TRUE(left.empty());
  ASSERT_EQ(complete, job.layout.geometry.layers);
}

TEST(BlockPlanModelTest, EveryRunOnceAndWithinEveryLimit) {
  Draw draw(testing::TestSeed());
  const uint64_t draws = testing::FromEnvironment("KVTIER_PLAN_DRAWS", kDefaultDraws);
  for (uint64_t i = 0; i < draws; ++i) {
    const uint64_t most_run_bytes = uint64_t{1} << (8 + i % 15);  // At most 4 MiB.
    const Job job = draw.Next(most_run_bytes, 60);
    ASSERT_EQ(job.layout.geometry.Validate(job.layout.registered), absl::OkStatus());
    const auto plan = PlanBlocks(RawForm(job.layout.geometry), job.order, job.blocks);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectEveryRunOnce(job, *plan);
    ASSERT_TRUE(job.order == PlanOrder::kLayerWise || plan->groups.size() == 1);
    for (size_t group = 0; group + 1 < plan->groups.size(); ++group) {
      ASSERT_GE(plan->groups[group].stored_bytes * job.blocks.size(), kMinLayerGroupBytes);
    }
    ASSERT_FALSE(HasFailure()) << "draw " << i << ": " << job.layout.name;
  }
}

}  // namespace
}  // namespace kvtier
