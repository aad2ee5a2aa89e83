// bench: plan - what planning a copy costs a block, and what it saves of segments and link time
//
// One core, 512 blocks of Llama 3 8B (2 MiB, 64 runs of 32 KiB) toward the device. The
// reference lists every run of every block and cuts the list into batches, in the same
// run. Link time is the model's of PCIe 5.0, not measured. Every time is the median of
// several rounds.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "bench/figure.h"
#include "bench/rounds.h"
#include "core/check.h"
#include "tier_gpu/plan/planner.h"

ABSL_FLAG(kvtier::bench::Rounds, rounds, {51}, "Rounds; the medians count.");

namespace kvtier::bench {
namespace {

constexpr uint32_t kLayers = 32;
constexpr uint64_t kRunBytes = 32 << 10;
constexpr uint32_t kSlots = 4096;
constexpr uint32_t kBlocks = 512;  // 8192 tokens.
constexpr auto kDirection = CopyDirection::kHostToDevice;

struct Case {
  const char* name;
  KvGeometry geometry;
  bool scattered;  // Slots in no order; otherwise one behind the other.
  PlanOrder order;
};

// An engine's tensors: one a layer, keys of all slots and then values of all slots.
KvGeometry PerLayer() {
  KvGeometry geometry = {
      .layers = kLayers, .slots = kSlots, .run_bytes = kRunBytes, .block_stride = kRunBytes};
  for (uint32_t tensor = 0; tensor < 2 * kLayers; ++tensor) {
    geometry.bases.push_back(uint64_t{tensor} * kSlots * kRunBytes);
  }
  return geometry;
}

// No byte is touched: addresses alone. Host memory is without a gap.
std::vector<PlannedBlock> Blocks(const Case& planned) {
  std::vector<uint32_t> slots(kSlots);
  std::iota(slots.begin(), slots.end(), 0);
  if (planned.scattered) std::ranges::shuffle(slots, std::mt19937_64{1});
  std::vector<PlannedBlock> blocks;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    const uintptr_t host = (uintptr_t{1} << 40) + i * planned.geometry.block_bytes();
    blocks.push_back({.slot = slots[i], .host = reinterpret_cast<std::byte*>(host)});  // NOLINT
  }
  return blocks;
}

CopyPlan ListRuns(const KvGeometry& geometry, const std::vector<PlannedBlock>& blocks) {
  CopyPlan plan;
  for (const PlannedBlock& block : blocks) {
    for (size_t run = 0; run < geometry.bases.size(); ++run) {
      if (plan.segments.size() % kMaxCopySegments == 0) {
        plan.batches.push_back({.first_segment = plan.segments.size()});
      }
      plan.segments.push_back(
          {.device_offset = geometry.bases[run] + block.slot * geometry.block_stride,
           .host = block.host + run * geometry.run_bytes,
           .bytes = geometry.run_bytes});
      ++plan.batches.back().segments;
      plan.batches.back().bytes += geometry.run_bytes;
    }
  }
  return plan;
}

// Nanoseconds a block.
double Cost(const std::function<CopyPlan()>& way, CopyPlan* plan) {
  const absl::Time started = absl::Now();
  *plan = way();
  return absl::ToDoubleNanoseconds(absl::Now() - started) / kBlocks;
}

void MeasureCase(const Case& planned, const LinkModel& link, int rounds) {
  const CalibrationTable table(link);
  const std::vector<PlannedBlock> blocks = Blocks(planned);
  const auto ours = [&] {
    const CopyRequest request = {.blocks = blocks, .direction = kDirection, .order = planned.order};
    auto plan = PlanCopies(planned.geometry, request, table);
    KVT_CHECK(plan.ok());
    return *std::move(plan);
  };
  const auto naive = [&] { return ListRuns(planned.geometry, blocks); };
  std::vector<double> costs;
  std::vector<double> naive_costs;
  CopyPlan plan;
  CopyPlan runs;
  for (int round = 0; round < rounds; ++round) {
    costs.push_back(Cost(ours, &plan));
    naive_costs.push_back(Cost(naive, &runs));
  }
  const auto segments = static_cast<double>(plan.segments.size());
  const double time = absl::ToDoubleMilliseconds(PredictPlan(link, kDirection, plan));
  const double naive_time = absl::ToDoubleMilliseconds(PredictPlan(link, kDirection, runs));
  const std::string name = absl::StrCat("plan.", planned.name);
  PrintFigure(name + ".segments", segments / kBlocks, "a_block",
              segments / static_cast<double>(runs.segments.size()), "every_run");
  PrintFigure(name + ".predicted", time, "ms", time / naive_time, "every_run_by_the_engine");
  PrintFigure(name + ".cost", Median(costs), "ns/block", Median(costs) / Median(naive_costs),
              "list_of_every_run");
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage("What planning copies costs and saves, beside listing every run.");
  absl::ParseCommandLine(argc, argv);
  const int rounds = absl::GetFlag(FLAGS_rounds).count;
  const KvGeometry owned = KvGeometry::Owned(KvAxes::kApart, kLayers, kRunBytes, kSlots);
  const LinkModel link = LinkModel::Pcie5();
  for (const Case& planned :
       {Case{"owned_fresh", owned, false, PlanOrder::kWhole},
        Case{"owned", owned, true, PlanOrder::kWhole},
        Case{"owned_layer_wise", owned, true, PlanOrder::kLayerWise},
        Case{"per_layer", PerLayer(), true, PlanOrder::kWhole},
        Case{"per_layer_layer_wise", PerLayer(), true, PlanOrder::kLayerWise}}) {
    MeasureCase(planned, link, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace kvtier::bench

int main(int argc, char** argv) { return kvtier::bench::Main(argc, argv); }
