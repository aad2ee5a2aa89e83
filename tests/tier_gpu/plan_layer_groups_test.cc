// Onboarding layer by layer: compute begins early, all of it takes hardly longer than whole, and on
// an emulated device the layers complete when the planner says.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "core/task_scope.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/sim_executor.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/plan/planner.h"
#include "tier_gpu/planned_copy.h"

namespace kvtier {
namespace {

constexpr uint64_t kBytes = uint64_t{4} << 30;  // Of host memory, and of the device.
constexpr std::array kAnyPaths = {LanePaths::kAll, LanePaths::kEngine};

// Addresses that nobody looks at: nothing moves.
std::byte* Host(uint64_t offset) {
  return reinterpret_cast<std::byte*>((uintptr_t{1} << 40) + offset);  // NOLINT
}

// 8192 tokens of Llama 3 8B in our pool: 512 blocks of 2 MiB, no two of them neighbours.
CopyPlan PlanOnboard(PlanOrder order, LanePaths paths) {
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kApart, 32, 32 << 10, 1024);
  std::vector<PlannedBlock> blocks;
  for (uint32_t i = 0; i < 512; ++i) {
    blocks.push_back({.slot = 2 * i, .host = Host(uint64_t{i} << 22)});
  }
  const auto plan = PlanCopies(geometry, {.blocks = blocks, .order = order, .paths = paths});
  EXPECT_EQ(plan.status(), absl::OkStatus());
  return plan.value_or(CopyPlan{});
}

absl::Duration Predict(const CopyPlan& plan) {
  return PredictPlan(LinkModel::Pcie5(), CopyDirection::kHostToDevice, plan);
}

// To where the first layer is complete.
absl::Duration PredictFirstLayer(CopyPlan plan) {
  const auto complete = [](const PlannedBatch& batch) { return batch.layers_complete > 0; };
  plan.batches.erase(std::ranges::find_if(plan.batches, complete) + 1, plan.batches.end());
  return Predict(plan);
}

// A layer's segments are short for a copy engine alone: then more layers are waited for together.
TEST(PlanLayerGroupsTest, LayerByLayerIsHardlySlowerThanWhole) {
  for (const LanePaths paths : kAnyPaths) {
    const CopyPlan layers = PlanOnboard(PlanOrder::kLayerWise, paths);
    const absl::Duration whole = Predict(PlanOnboard(PlanOrder::kWhole, paths));
    EXPECT_LE(Predict(layers), kMaxLayerWiseTime * whole);
    EXPECT_LE(PredictFirstLayer(layers), whole / (paths == LanePaths::kAll ? 20 : 3));
  }
}

// What flows see of a plan on a device: the first word of its layers, and the end.
struct Seen {
  absl::Duration first_layer;
  absl::Duration all;
};

Task<void> Await(Task<absl::Status> copy, std::optional<absl::Status>* status) {
  *status = co_await copy;
}

Seen RunOnADevice(const CopyPlan& plan) {
  testing::SimTime time;
  testing::SimExecutor executor(&time);
  testing::FaultyDevice device(&executor, {.pin_chunk_bytes = kBytes});
  device.LeaveOutBytes();
  const std::array<std::span<std::byte>, 1> tensors = {{{Host(kBytes), kBytes}}};
  const std::unique_ptr<DeviceRegion> region = *device.AdoptRegion(tensors);
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  EXPECT_TRUE(device.Pin({Host(0), kBytes}).ok());
  EXPECT_TRUE(device.Pin(page->bytes()).ok());
  SignalWord* const complete = page->word(0);
  const PlannedCopy copy = {.direction = CopyDirection::kHostToDevice,
                            .region = region.get(),
                            .mark = [complete](uint32_t layers) {
                              return LaneRunner::Mark{.word = complete, .value = layers};
                            }};
  LaneRunner runner(&device, &executor, &executor);
  TaskScope scope(&executor);
  std::optional<absl::Status> status;
  const absl::Time start = time.Now();
  scope.Spawn(Await(runner.Run(RunnerCopy(plan, copy)), &status));
  Seen seen;
  while (!status && time.Step()) {
    if (seen.first_layer > absl::ZeroDuration() || !device.Reached(*complete, 1)) continue;
    seen.first_layer = time.Now() - start;
  }
  EXPECT_EQ(status, absl::OkStatus());
  seen.all = time.Now() - start;
  return seen;
}

// Batches in flight, words behind the layers, and an executor between: as predicted.
TEST(PlanLayerGroupsTest, LayersCompleteOnAnEmulatedDeviceWhenThePlannerSays) {
  for (const PlanOrder order : {PlanOrder::kWhole, PlanOrder::kLayerWise}) {
    for (const LanePaths paths : kAnyPaths) {
      const CopyPlan plan = PlanOnboard(order, paths);
      const Seen seen = RunOnADevice(plan);
      EXPECT_NEAR(absl::FDivDuration(seen.all, Predict(plan)), 1, 0.01);
      EXPECT_NEAR(absl::FDivDuration(seen.first_layer, PredictFirstLayer(plan)), 1, 0.01);
    }
  }
}

}  // namespace
}  // namespace kvtier
