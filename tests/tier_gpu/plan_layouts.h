// Holds layouts of device memory in inference engines, for tests of code that copies it. Each
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
  uint64_t start = 0;  // Start of the first tensor; the others follow, with room between them.
};

struct Layout {
  std::string name{};
  KvGeometry geometry{};
  std::vector<DeviceRange> registered{};
  // Formula: device offset of (layer, axis, slot).
  std::function<uint64_t(uint64_t, uint64_t, uint64_t)> address{};
  uint64_t end = 0;  // End of all registered memory.
};

using LayoutMaker = Layout (*)(const LayoutSize&);

// Return layouts with one tensor for each layer: [K|V][slot][run], [slot][K|V][run], [slot][fused
// row].
Layout PerLayerLayout(const LayoutSize& size);
Layout PairedLayout(const LayoutSize& size);
Layout FusedLayout(const LayoutSize& size);
// Returns a layout with two tensors for each layer, all keys first, in descending order.
Layout TwinTensorsLayout(const LayoutSize& size);
// Return layouts with one tensor: [slot][layer][K|V][run], and for latent rows [slot][layer][run].
Layout CrossLayerLayout(const LayoutSize& size);
Layout LatentLayout(const LayoutSize& size);

inline constexpr std::array<LayoutMaker, 6> kLayouts = {
    PerLayerLayout, PairedLayout, FusedLayout, TwinTensorsLayout, CrossLayerLayout, LatentLayout};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TIER_GPU_PLAN_LAYOUTS_H_
