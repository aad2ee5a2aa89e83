#include "tests/client/tensor_memory.h"

#include "core/check.h"
#include "tests/testing/blocks.h"

namespace kvtier::testing {
namespace {

std::byte ByteOf(uint64_t content, uint64_t layer, uint64_t axis, uint64_t place) {
  uint64_t mixed = (content * 1000003 + layer * 31 + axis + 1) * 0x9e3779b97f4a7c15;
  mixed ^= place * 0xff51afd7ed558ccd;
  return static_cast<std::byte>(mixed >> 56);
}

}  // namespace

TensorMemory::TensorMemory(LayoutMaker maker, LayoutSize size)
    : layout_(maker(size)), bytes_(layout_.end + 2 * kGuardBytes, std::byte{0xa5}) {}

KvTensors TensorMemory::tensors() {
  const KvGeometry& geometry = layout_.geometry;
  KvTensors tensors = {.axes = geometry.axes,
                       .layers = geometry.layers,
                       .slots = geometry.slots,
                       .run_bytes = geometry.run_bytes,
                       .block_stride = geometry.block_stride};
  for (const DeviceRange& range : layout_.registered) {
    tensors.tensors.emplace_back(at(range.offset), range.bytes);
  }
  for (const uint64_t base : geometry.bases) {
    for (uint32_t i = 0; i < layout_.registered.size(); ++i) {
      const DeviceRange& range = layout_.registered[i];
      if (base < range.offset || base >= range.offset + range.bytes) continue;
      tensors.bases.push_back({.tensor = i, .offset = base - range.offset});
    }
  }
  KVT_CHECK(tensors.bases.size() == geometry.bases.size());
  return tensors;
}

SpaceSpec TensorMemory::space() const {
  SpaceSpec spec = TestSpace(layout_.geometry.block_bytes());
  spec.layers = layout_.geometry.layers;
  spec.layout = SpaceLayout(layout_.geometry.axes, KvOrder::kTokenHead);
  return spec;
}

std::span<std::byte> TensorMemory::run(uint64_t layer, uint64_t axis, uint32_t slot) {
  return {at(layout_.address(layer, axis, slot)), layout_.geometry.run_bytes};
}

void TensorMemory::Compute(uint32_t slot, uint64_t content) {
  for (uint64_t layer = 0; layer < layout_.geometry.layers; ++layer) {
    for (uint64_t axis = 0; axis < layout_.geometry.axis_count(); ++axis) {
      const std::span<std::byte> bytes = run(layer, axis, slot);
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteOf(content, layer, axis, i);
    }
  }
}

bool TensorMemory::Holds(uint32_t slot, uint64_t content, uint32_t first, uint32_t count) const {
  for (uint64_t layer = first; layer < uint64_t{first} + count; ++layer) {
    for (uint64_t axis = 0; axis < layout_.geometry.axis_count(); ++axis) {
      const std::byte* const run = bytes_.data() + kGuardBytes + layout_.address(layer, axis, slot);
      for (size_t i = 0; i < layout_.geometry.run_bytes; ++i) {
        if (run[i] != ByteOf(content, layer, axis, i)) return false;
      }
    }
  }
  return true;
}

}  // namespace kvtier::testing
