// Blocks of Llama 3 8B, as the planner moves them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "core/check.h"
#include "tier_gpu/plan/planner.h"

namespace kvtier::bench {
namespace {

constexpr uint32_t kLayers = 32;
constexpr uint64_t kRunBytes = 32 << 10;  // 16 tokens, 8 heads of 128, bf16.
constexpr uint64_t kBlockBytes = 2 * uint64_t{kLayers} * kRunBytes;
constexpr int kRepetitions = 9;

// An engine's tensors: one a layer, keys of all slots and then values of all slots.
KvGeometry PerLayer(uint32_t slots) {
  KvGeometry geometry = {
      .layers = kLayers, .slots = slots, .run_bytes = kRunBytes, .block_stride = kRunBytes};
  for (uint64_t tensor = 0; tensor < uint64_t{2} * kLayers; ++tensor) {
    geometry.bases.push_back(tensor * slots * kRunBytes);
  }
  return geometry;
}

struct Planned {
  CopyPlan plan;
  std::vector<RigBatch> batches;
  size_t first_layer = 0;  // Batches until it is complete.
};

Planned PlanFor(const KvGeometry& geometry, std::span<const PlannedBlock> blocks,
                CopyDirection direction, PlanOrder order, bool emulated) {
  const CalibrationTable table(LinkModel::Pcie5());
  Planned planned{.plan = *PlanCopies(
                      geometry, {.blocks = blocks, .direction = direction, .order = order}, table)};
  for (const PlannedBatch& batch : planned.plan.batches) {
    // The emulated device has no other path, whatever a link would like best.
    planned.batches.push_back(
        {emulated ? CopyPath::kBatch : batch.path, planned.plan.SegmentsOf(batch)});
    if (batch.layers_complete == 0) planned.first_layer = planned.batches.size();
  }
  ++planned.first_layer;
  return planned;
}

struct Layout {
  const char* name;
  KvGeometry geometry;
};

void MeasureLayout(GpuRig* rig, const Layout& layout, size_t count, const LinkCeilings& ceilings,
                   GpuFigures* figures) {
  std::vector<uint32_t> slots(layout.geometry.slots);
  std::iota(slots.begin(), slots.end(), 0);
  std::ranges::shuffle(slots, std::mt19937_64(count));
  std::vector<PlannedBlock> sent;
  std::vector<PlannedBlock> back;
  for (size_t i = 0; i < count; ++i) {
    sent.push_back({slots[i], rig->source() + i * kBlockBytes});
    back.push_back({slots[i], rig->back() + i * kBlockBytes});
  }
  const auto plan = [&](std::span<const PlannedBlock> blocks, CopyDirection direction,
                        PlanOrder order) {
    return PlanFor(layout.geometry, blocks, direction, order, rig->emulated());
  };
  constexpr CopyDirection kIn = CopyDirection::kHostToDevice;
  constexpr CopyDirection kOut = CopyDirection::kDeviceToHost;
  const Planned whole = plan(sent, kIn, PlanOrder::kWhole);
  const Planned layers = plan(sent, kIn, PlanOrder::kLayerWise);
  const Planned offload = plan(back, kOut, PlanOrder::kWhole);
  rig->Prove(whole.batches, offload.batches);
  rig->Prove(layers.batches, offload.batches);
  std::array<std::vector<double>, 4> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    seconds[0].push_back(rig->Run(kIn, whole.batches));
    double first = 0;
    seconds[1].push_back(rig->Run(kIn, layers.batches, layers.first_layer, &first));
    seconds[2].push_back(first);
    seconds[3].push_back(rig->Run(kOut, offload.batches));
  }
  const double onboard = Median(seconds[0]);
  const double layer_wise = Median(seconds[1]);
  const auto bytes = static_cast<double>(count * kBlockBytes);
  std::printf("  %-10s %5zu %10.2f ms %7.1f GB/s %10.2f ms %7.1f GB/s %10.2f ms %10.3f ms\n",
              layout.name, count, onboard * 1e3, bytes / onboard / 1e9, Median(seconds[3]) * 1e3,
              bytes / Median(seconds[3]) / 1e9, layer_wise * 1e3, Median(seconds[2]) * 1e3);
  const std::string name = absl::StrCat("gpu.blocks.", layout.name, ".", count);
  figures->push_back({name + ".onboard", bytes / onboard / 1e9, "GB/s",
                      bytes / onboard / ceilings.in, "pinned copy"});
  figures->push_back({name + ".layer_wise", layer_wise * 1e3, "ms", layer_wise / onboard, "whole"});
}

}  // namespace

void MeasureBlocks(GpuRig* rig, const LinkCeilings& ceilings, GpuFigures* figures) {
  std::printf("\nblocks of Llama 3 8B (2 MiB), scattered slots\n");
  std::printf("  %-10s %5s %13s %12s %13s %12s %13s %13s\n", "layout", "count", "onboard", "",
              "offload", "", "layer-wise", "first layer");
  const auto slots = static_cast<uint32_t>(rig->region()->bytes() / kBlockBytes);
  for (const size_t count : {64, 256, 1024}) {
    if (count * kBlockBytes > rig->bytes()) break;
    const std::array<Layout, 2> layouts = {
        {{"ours", KvGeometry::Owned(KvAxes::kApart, kLayers, kRunBytes, slots)},
         {"per_layer", PerLayer(slots)}}};
    for (const Layout& layout : layouts) MeasureLayout(rig, layout, count, ceilings, figures);
  }
}

}  // namespace kvtier::bench
