#include "tests/tier_gpu/plan_layouts.h"

#include <utility>

namespace kvtier::testing {
namespace {

// Room between tensors, so that they are adjacent only by accident.
constexpr uint64_t kRoom = 512;

// Makes `tensors` of equal size, and the bases that the formula gives for slot 0.
Layout Make(std::string name, KvAxes axes, const LayoutSize& size, uint64_t stride,
            uint64_t tensors, uint64_t tensor_bytes,
            std::function<uint64_t(uint64_t, uint64_t, uint64_t)> address) {
  Layout layout = {.name = std::move(name),
                   .geometry = {.axes = axes,
                                .layers = size.layers,
                                .slots = size.slots,
                                .run_bytes = size.run_bytes,
                                .block_stride = stride}};
  for (uint64_t i = 0; i < tensors; ++i) {
    layout.registered.push_back(
        {.offset = size.start + i * (tensor_bytes + kRoom), .bytes = tensor_bytes});
  }
  layout.end = layout.registered.back().offset + tensor_bytes;
  for (uint64_t layer = 0; layer < size.layers; ++layer) {
    for (uint64_t axis = 0; axis < layout.geometry.axis_count(); ++axis) {
      layout.geometry.bases.push_back(address(layer, axis, 0));
    }
  }
  layout.address = std::move(address);
  return layout;
}

}  // namespace

Layout PerLayerLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t slots = size.slots;
  const uint64_t tensor = 2 * slots * run;
  const uint64_t start = size.start;
  return Make("per layer", KvAxes::kApart, size, run, size.layers, tensor,
              [=](uint64_t layer, uint64_t axis, uint64_t slot) {
                return start + layer * (tensor + kRoom) + (axis * slots + slot) * run;
              });
}

Layout PairedLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t tensor = uint64_t{2} * size.slots * run;
  const uint64_t start = size.start;
  return Make("paired", KvAxes::kApart, size, 2 * run, size.layers, tensor,
              [=](uint64_t layer, uint64_t axis, uint64_t slot) {
                return start + layer * (tensor + kRoom) + (2 * slot + axis) * run;
              });
}

Layout FusedLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t tensor = size.slots * run;
  const uint64_t start = size.start;
  return Make("fused", KvAxes::kFused, size, run, size.layers, tensor,
              [=](uint64_t layer, uint64_t, uint64_t slot) {
                return start + layer * (tensor + kRoom) + slot * run;
              });
}

Layout TwinTensorsLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t tensor = size.slots * run;
  const uint64_t start = size.start;
  const uint64_t layers = size.layers;
  return Make("twin tensors", KvAxes::kApart, size, run, 2 * layers, tensor,
              [=](uint64_t layer, uint64_t axis, uint64_t slot) {
                const uint64_t at = axis * layers + (layers - 1 - layer);
                return start + at * (tensor + kRoom) + slot * run;
              });
}

Layout CrossLayerLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t stride = uint64_t{2} * size.layers * run;
  const uint64_t start = size.start;
  return Make("cross layer", KvAxes::kApart, size, stride, 1, size.slots * stride,
              [=](uint64_t layer, uint64_t axis, uint64_t slot) {
                return start + slot * stride + (2 * layer + axis) * run;
              });
}

Layout LatentLayout(const LayoutSize& size) {
  const uint64_t run = size.run_bytes;
  const uint64_t stride = size.layers * run;
  const uint64_t start = size.start;
  return Make(
      "latent", KvAxes::kLatent, size, stride, 1, size.slots * stride,
      [=](uint64_t layer, uint64_t, uint64_t slot) { return start + slot * stride + layer * run; });
}

}  // namespace kvtier::testing
