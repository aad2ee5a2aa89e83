// Blocks of Llama 3 8B, as the planner moves them.
#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "bench/figure.h"
#include "bench/gpu_sections.h"
#include "bench/plain_ways.h"
#include "bench/rig_cell.h"
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

Planned PlanFor(const KvGeometry& geometry, const CopyRequest& request,
                const CalibrationTable& table, bool emulated) {
  Planned planned{.plan = *PlanCopies(geometry, request, table)};
  for (const PlannedBatch& batch : planned.plan.batches) {
    // The emulated device has no other path, whatever a link would like best.
    planned.batches.push_back(
        {emulated ? CopyPath::kBatch : batch.path, planned.plan.SegmentsOf(batch)});
    if (batch.layers_complete == 0) planned.first_layer = planned.batches.size();
  }
  ++planned.first_layer;
  return planned;
}

std::vector<CopySegment> SegmentsOf(const Planned& planned) {
  std::vector<CopySegment> segments;
  for (const RigBatch& batch : planned.batches) {
    segments.insert(segments.end(), batch.segments.begin(), batch.segments.end());
  }
  return segments;
}

struct Layout {
  const char* name;
  KvGeometry geometry;
};

// Blocks in scattered slots of a layout, planned both ways.
struct BlockCell {
  BlockCell(GpuRig* rig, const Layout& layout, const CalibrationTable& table, size_t count)
      : bytes(count * kBlockBytes) {
    std::vector<uint32_t> slots(layout.geometry.slots);
    std::iota(slots.begin(), slots.end(), 0);
    std::ranges::shuffle(slots, std::mt19937_64(count));
    std::vector<PlannedBlock> sent;
    std::vector<PlannedBlock> back;
    for (size_t i = 0; i < count; ++i) {
      sent.push_back({slots[i], rig->source() + i * kBlockBytes});
      back.push_back({slots[i], rig->back() + i * kBlockBytes});
    }
    const bool emulated = rig->emulated();
    CopyRequest request = {.blocks = sent, .direction = kIn};
    whole = PlanFor(layout.geometry, request, table, emulated);
    request.order = PlanOrder::kLayerWise;
    layers = PlanFor(layout.geometry, request, table, emulated);
    request = {.blocks = back, .direction = kOut};
    offload = PlanFor(layout.geometry, request, table, emulated);
  }
  const uint64_t bytes;
  Planned whole;
  Planned layers;
  Planned offload;
};

std::string Milliseconds(double seconds, double bytes) {
  return absl::StrFormat("%10.2f ms %7.1f GB/s", seconds * 1e3, bytes / seconds / 1e9);
}

void MeasurePlanned(GpuRig* rig, const BlockCell& cell, const std::string& name,
                    const LinkCeilings& ceilings, GpuFigures* figures) {
  for (const Planned* const in : {&cell.whole, &cell.layers}) {
    rig->Prove(SegmentsOf(*in), SegmentsOf(cell.offload),
               rig->ByBatches(in->batches, cell.offload.batches));
  }
  std::array<std::vector<double>, 4> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    seconds[0].push_back(rig->Run(kIn, cell.whole.batches));
    double first = 0;
    seconds[1].push_back(rig->Run(kIn, cell.layers.batches, cell.layers.first_layer, &first));
    seconds[2].push_back(first);
    seconds[3].push_back(rig->Run(kOut, cell.offload.batches));
  }
  const double onboard = Median(seconds[0]);
  const double layer_wise = Median(seconds[1]);
  const double first_layer = Median(seconds[2]);
  const double offload = Median(seconds[3]);
  const auto bytes = static_cast<double>(cell.bytes);
  std::printf("%s %s %10.2f ms %10.3f ms\n", Milliseconds(onboard, bytes).c_str(),
              Milliseconds(offload, bytes).c_str(), layer_wise * 1e3, first_layer * 1e3);
  figures->push_back({name + ".onboard", bytes / onboard / 1e9, "GB/s",
                      bytes / onboard / ceilings.in, "pinned copy"});
  figures->push_back({name + ".offload", bytes / offload / 1e9, "GB/s",
                      bytes / offload / ceilings.out, "pinned copy"});
  figures->push_back({name + ".layer_wise", layer_wise * 1e3, "ms", layer_wise / onboard, "whole"});
  figures->push_back(
      {name + ".first_layer", first_layer * 1e3, "ms", first_layer / onboard, "whole"});
}

// The same blocks the ways that others have it.
void MeasureOthers(GpuRig* rig, const BlockCell& cell, const NaiveSpeeds& naive,
                   const std::string& name, GpuFigures* figures) {
  const auto bytes = static_cast<double>(cell.bytes);
  const auto print = [&](const char* way, const BothWays& seconds) {
    std::printf("  %-16s %s %s\n", way, Milliseconds(seconds.in, bytes).c_str(),
                Milliseconds(seconds.out, bytes).c_str());
  };
  const std::vector<CopySegment> in = SegmentsOf(cell.whole);
  const std::vector<CopySegment> out = SegmentsOf(cell.offload);
  if (const auto way = CallEach(rig, in, out)) {
    const BothWays each = MeasureWay(rig, in, out, *way);
    print("  a call a layer", each);
    figures->push_back({name + ".onboard_a_call_a_layer", bytes / each.in / 1e9, "GB/s",
                        each.in / MedianOfRuns([&] { return rig->Run(kIn, cell.whole.batches); }),
                        "times the planner's time"});
  }
  if (const auto way = WarpARow(rig, in, out)) {
    print("  a warp a row", MeasureWay(rig, in, out, *way));
  }
  const auto torch = naive.torch.find({kRunBytes, cell.bytes / kRunBytes});
  if (torch == naive.torch.end()) return;
  print("  torch", {bytes / torch->second.in, bytes / torch->second.out});
}

}  // namespace

void MeasureBlocks(GpuRig* rig, const CalibrationTable& table, const LinkCeilings& ceilings,
                   const NaiveSpeeds& naive, GpuFigures* figures) {
  std::printf("\nblocks of Llama 3 8B (2 MiB), scattered slots\n");
  std::printf("  %-10s %5s %13s %12s %13s %12s %13s %13s\n", "layout", "count", "onboard", "",
              "offload", "", "layer-wise", "first layer");
  const auto slots = static_cast<uint32_t>(rig->region()->bytes() / kBlockBytes);
  const bool small = rig->bytes() < 64 * kBlockBytes;
  const std::array<size_t, 3> counts =
      small ? std::array<size_t, 3>{2, 8, 32} : std::array<size_t, 3>{64, 256, 1024};
  for (const size_t count : counts) {
    if (count * kBlockBytes > rig->bytes()) break;
    const std::array<Layout, 2> layouts = {
        {{"ours", KvGeometry::Owned(KvAxes::kApart, kLayers, kRunBytes, slots)},
         {"per_layer", PerLayer(slots)}}};
    for (const Layout& layout : layouts) {
      const BlockCell cell(rig, layout, table, count);
      const std::string name = absl::StrCat("gpu.blocks.", layout.name, ".", count);
      std::printf("  %-10s %5zu ", layout.name, count);
      MeasurePlanned(rig, cell, name, ceilings, figures);
      if (&layout == &layouts.back()) MeasureOthers(rig, cell, naive, name, figures);
    }
  }
}

}  // namespace kvtier::bench
