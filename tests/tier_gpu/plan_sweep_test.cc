// The promise of the path choice: over sizes, counts, directions and links, what the
// planner takes is never more than 5 % behind the best single path, in the model's time
// and on an emulated device that runs the plans; and over PCIe layer by layer takes no
// more than 5 % longer than whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/task_scope.h"
#include "tests/tier_gpu/timed_device.h"
#include "tier_gpu/device/signal_page.h"
#include "tier_gpu/lane_runner.h"
#include "tier_gpu/plan/planner.h"
#include "tier_gpu/planned_copy.h"

namespace kvtier {
namespace {

constexpr double kAllowed = 1.05;
constexpr std::array<CopyPath, kCopyPaths> kPaths = {CopyPath::kBatch, CopyPath::kStaged,
                                                     CopyPath::kDirect};
constexpr std::array<CopyDirection, 2> kDirections = {CopyDirection::kHostToDevice,
                                                      CopyDirection::kDeviceToHost};

struct Profile {
  const char* name;
  LinkModel link;
  double layer_wise = kAllowed;  // Times whole.
};

std::vector<Profile> Profiles() {
  return {{"Pcie5", LinkModel::Pcie5()},
          {"Pcie4", LinkModel::Pcie4()},
          {"Coherent", LinkModel::Coherent(), 1.25},
          {"CoherentGb300", LinkModel::CoherentGb300(), 1.25}};
}

// One run a block, none a neighbour of another.
struct Fragments {
  Fragments(uint64_t bytes, size_t count)
      : geometry(KvGeometry::Owned(KvAxes::kLatent, 1, bytes, static_cast<uint32_t>(2 * count))) {
    for (uint32_t i = 0; i < count; ++i) {
      blocks.push_back({.slot = 2 * i, .host = TimedDevice::Host(2 * bytes * i)});
    }
  }
  KvGeometry geometry;
  std::vector<PlannedBlock> blocks;
};

CopyPlan Plan(const KvGeometry& geometry, const CopyRequest& request,
              const CalibrationTable& table) {
  const auto plan = PlanCopies(geometry, request, table);
  EXPECT_EQ(plan.status(), absl::OkStatus());
  return plan.value_or(CopyPlan{});
}

// How long a plan takes: as the model says, or on a device.
using TimeOf = std::function<absl::Duration(CopyDirection direction, const CopyPlan& plan)>;

TimeOf InTheModel(const LinkModel& link) {
  return [link](CopyDirection direction, const CopyPlan& plan) {
    return PredictPlan(link, direction, plan);
  };
}

TimeOf OnADevice(const LinkModel& link) {
  return
      [device = std::make_shared<TimedDevice>(link)](
          CopyDirection direction, const CopyPlan& plan) { return device->Run(direction, plan); };
}

// How many times as long as the best of the fixed paths.
double BesideTheBest(const TimeOf& time_of, CopyDirection direction, CopyPlan plan) {
  const absl::Duration planned = time_of(direction, plan);
  absl::Duration best = absl::InfiniteDuration();
  for (const CopyPath path : kPaths) {
    for (PlannedBatch& batch : plan.batches) batch.path = path;
    best = std::min(best, time_of(direction, plan));
  }
  return absl::FDivDuration(planned, best);
}

struct Jobs {
  std::vector<uint64_t> kib;  // Of a segment.
  std::vector<size_t> counts;
};

Jobs JobsOfTheTable() {
  Jobs jobs = {.kib = {}, .counts = {16, 64, 256, 1024, 4096}};
  for (uint64_t kib = 1; kib <= 4096; kib *= 2) jobs.kib.push_back(kib);
  return jobs;
}

// Sizes and counts that the table has no cell for.
Jobs JobsBetween() {
  return {.kib = {3,  5,  6,  10,  12,  20,  24,  26,  28,  30,   40,   48,
                  72, 80, 96, 100, 160, 192, 320, 384, 640, 1000, 1500, 3000},
          .counts = {1, 2, 3, 5, 8, 10, 20, 32, 40, 50, 100, 128, 200, 400, 512, 700, 2000, 3000,
                     6000}};
}

void ExpectNoPathBeatsThePlanner(const Jobs& jobs, TimeOf (*timed)(const LinkModel&)) {
  for (const Profile& profile : Profiles()) {
    const CalibrationTable table(profile.link);
    const TimeOf time_of = timed(profile.link);
    double worst = 0;
    for (const CopyDirection direction : kDirections) {
      for (const uint64_t kib : jobs.kib) {
        for (const size_t count : jobs.counts) {
          const Fragments job(kib << 10, count);
          const double ratio = BesideTheBest(
              time_of, direction,
              Plan(job.geometry, {.blocks = job.blocks, .direction = direction}, table));
          EXPECT_LE(ratio, kAllowed) << profile.name << ", " << count << " of " << kib << " KiB, "
                                     << (direction == CopyDirection::kHostToDevice ? "in" : "out");
          worst = std::max(worst, ratio);
        }
      }
    }
    std::printf("%-14s at most %.3f times the best fixed path\n", profile.name, worst);
  }
}

TEST(PlanSweepTest, NoPathBeatsThePlanner) {
  ExpectNoPathBeatsThePlanner(JobsOfTheTable(), InTheModel);
}

TEST(PlanSweepTest, NorBetweenThePointsOfTheTable) {
  ExpectNoPathBeatsThePlanner(JobsBetween(), InTheModel);
}

// Once its lanes ran one batch at a time, and cells were 1.8 times behind.
TEST(PlanSweepTest, NorOnAnEmulatedDevice) {
  ExpectNoPathBeatsThePlanner(JobsOfTheTable(), OnADevice);
}

TEST(PlanSweepTest, NorOnAnEmulatedDeviceBetweenThePointsOfTheTable) {
  ExpectNoPathBeatsThePlanner(JobsBetween(), OnADevice);
}

// Llama 3 8B, our layout, 8192 tokens: 512 blocks of 2 MiB.
struct Onboard {
  Onboard() {
    for (uint32_t i = 0; i < 512; ++i) {
      blocks.push_back({.slot = 2 * i, .host = TimedDevice::Host(uint64_t{i} << 22)});
    }
  }
  absl::Duration Predict(const LinkModel& link, const CalibrationTable& table, PlanOrder order,
                         LanePaths paths = LanePaths::kAll) {
    plan = Plan(geometry, {.blocks = blocks, .order = order, .paths = paths}, table);
    return PredictPlan(link, CopyDirection::kHostToDevice, plan);
  }
  // Of the last plan, to where the first layer is complete.
  absl::Duration PredictFirstLayer(const LinkModel& link) const {
    CopyPlan first = plan;
    const auto complete = [](const PlannedBatch& batch) { return batch.layers_complete > 0; };
    const auto last = std::ranges::find_if(first.batches, complete);
    first.batches.erase(last + 1, first.batches.end());
    return PredictPlan(link, CopyDirection::kHostToDevice, first);
  }
  const KvGeometry geometry = KvGeometry::Owned(KvAxes::kApart, 32, 32 << 10, 1024);
  std::vector<PlannedBlock> blocks;
  CopyPlan plan;
};

// A layer's segments are short for a copy engine alone: then more layers are waited for
// together. A coherent link moves even a quarter of them in less time than that saves.
TEST(PlanSweepTest, LayerByLayerIsHardlySlowerThanWhole) {
  for (const Profile& profile : Profiles()) {
    const CalibrationTable table(profile.link);
    for (const LanePaths paths : {LanePaths::kAll, LanePaths::kEngine}) {
      Onboard onboard;
      const absl::Duration whole = onboard.Predict(profile.link, table, PlanOrder::kWhole, paths);
      const absl::Duration layers =
          onboard.Predict(profile.link, table, PlanOrder::kLayerWise, paths);
      const absl::Duration begun = onboard.PredictFirstLayer(profile.link);
      std::printf("%-14s %-6s whole %s, layer by layer %s, the first after %s\n", profile.name,
                  paths == LanePaths::kEngine ? "agent" : "worker",
                  absl::FormatDuration(whole).c_str(), absl::FormatDuration(layers).c_str(),
                  absl::FormatDuration(begun).c_str());
      EXPECT_LE(layers, profile.layer_wise * whole) << profile.name;
      EXPECT_LE(begun, whole / 3) << profile.name;
    }
  }
}

// Computed by others from 55 GB/s: 19.5 ms for all, 0.65 ms for the first layer.
TEST(PlanSweepTest, AGibibyteOverPcie5TakesWhatOthersComputed) {
  const LinkModel link = LinkModel::Pcie5();
  const CalibrationTable table(link);
  Onboard onboard;
  const double whole = absl::ToDoubleMilliseconds(onboard.Predict(link, table, PlanOrder::kWhole));
  EXPECT_NEAR(whole, 19.5, 19.5 * 0.15);
  onboard.Predict(link, table, PlanOrder::kLayerWise);
  const double first = absl::ToDoubleMilliseconds(onboard.PredictFirstLayer(link));
  EXPECT_NEAR(first, 0.65, 0.65 * 0.15);
}

// What flows see of a plan on a device: the first word of its layers, and the end.
struct Seen {
  absl::Duration first_layer;
  absl::Duration all;
};

Task<void> Await(Task<absl::Status> copy, std::optional<absl::Status>* status) {
  *status = co_await copy;
}

Seen RunOnADevice(const LinkModel& link, const CopyPlan& plan) {
  TimedDevice timed(link);
  const std::unique_ptr<SignalPage> page = *SignalPage::Create();
  EXPECT_TRUE(timed.device().Pin(page->bytes()).ok());
  SignalWord* const complete = page->word(0);
  const PlannedCopy copy = {.direction = CopyDirection::kHostToDevice,
                            .region = timed.region(),
                            .mark = [complete](uint32_t layers) {
                              return LaneRunner::Mark{.word = complete, .value = layers};
                            }};
  LaneRunner runner(&timed.device(), &timed.executor(), &timed.executor());
  TaskScope scope(&timed.executor());
  std::optional<absl::Status> status;
  const absl::Time start = timed.time().Now();
  scope.Spawn(Await(runner.Run(RunnerCopy(plan, copy)), &status));
  Seen seen;
  while (!status && timed.time().Step()) {
    if (seen.first_layer > absl::ZeroDuration() || !timed.device().Reached(*complete, 1)) continue;
    seen.first_layer = timed.time().Now() - start;
  }
  EXPECT_EQ(status, absl::OkStatus());
  seen.all = timed.time().Now() - start;
  return seen;
}

// Two batches in flight, words behind the layers, and an executor between: as predicted.
TEST(PlanSweepTest, LayersCompleteOnAnEmulatedDeviceWhenThePlannerSays) {
  for (const Profile& profile : Profiles()) {
    const CalibrationTable table(profile.link);
    for (const PlanOrder order : {PlanOrder::kWhole, PlanOrder::kLayerWise}) {
      for (const LanePaths paths : {LanePaths::kAll, LanePaths::kEngine}) {
        Onboard onboard;
        const absl::Duration all = onboard.Predict(profile.link, table, order, paths);
        const absl::Duration first = onboard.PredictFirstLayer(profile.link);
        const Seen seen = RunOnADevice(profile.link, onboard.plan);
        std::printf("%-14s %-6s %-14s %s, the first layer after %s\n", profile.name,
                    paths == LanePaths::kEngine ? "agent" : "worker",
                    order == PlanOrder::kWhole ? "whole" : "layer by layer",
                    absl::FormatDuration(seen.all).c_str(),
                    absl::FormatDuration(seen.first_layer).c_str());
        EXPECT_NEAR(absl::FDivDuration(seen.all, all), 1, 0.01) << profile.name;
        EXPECT_NEAR(absl::FDivDuration(seen.first_layer, first), 1, 0.01) << profile.name;
      }
    }
  }
}

}  // namespace
}  // namespace kvtier
