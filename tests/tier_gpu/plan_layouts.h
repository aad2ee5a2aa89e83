// Device memory as inference engines lay it out, for tests of what copies it. Each
// layout says twice where a run is: as a geometry, and as the formula of its axes.
#ifndef KVTIER_TESTS_TIER_GPU_PLAN_LAYOUTS_H_
#define KVTIER_TESTS_TIER_GPU_PLAN_LAYOUTS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tier_gpu/plan/geometry.h"

namespace kvtier::testing {

struct LayoutSize {
  uint32_t layers = 0;
  uint32_t slots = 0;
  uint64_t run_bytes = 0;
  uint64_t start = 0;  // Of the first tensor; others come behind, with room between.
};

struct Layout {
  std::string name{};
  KvGeometry geometry{};
  std::vector<DeviceRange> registered{};
  // The formula: device offset of (layer, axis, slot).
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> address{};
  uint64_t end = 0;  // Of all registered memory.
};

using LayoutMaker = Layout (*)(const LayoutSize&);

// A tensor a layer: [K|V][slot][run], [slot][K|V][run], [slot][fused row].
Layout PerLayerLayout(const LayoutSize& size);
Layout PairedLayout(const LayoutSize& size);
Layout FusedLayout(const LayoutSize& size);
// Two tensors a layer, all keys first, in descending order.
Layout TwinTensorsLayout(const LayoutSize& size);
// One tensor: [slot][layer][K|V][run]; and of latent rows: [slot][layer][run].
Layout CrossLayerLayout(const LayoutSize& size);
Layout LatentLayout(const LayoutSize& size);

inline constexpr std::array<LayoutMaker, 6> kLayouts = {
    PerLayerLayout, PairedLayout, FusedLayout, TwinTensorsLayout, CrossLayerLayout, LatentLayout};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_GPU_PLAN_LAYOUTS_H_
