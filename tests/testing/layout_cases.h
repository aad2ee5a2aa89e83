// Pairs of layouts between which blocks are moved, and the move row by row as the header describes
// it.
#ifndef KVTIER_TESTS_TESTING_LAYOUT_CASES_H_
#define KVTIER_TESTS_TESTING_LAYOUT_CASES_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/block_layout.h"

namespace kvtier::testing {

struct NamedLayout {
  std::string name;
  kernels::BlockLayout layout;
};

inline std::vector<NamedLayout> BlockLayouts(const KvShape& shape, uint64_t row_bytes) {
  using namespace kernels;
  std::vector<NamedLayout> layouts = {{"token major", TokenMajorLayout(shape, row_bytes)},
                                      {"head major", HeadMajorLayout(shape, row_bytes)},
                                      {"fused", FusedLayout(shape, row_bytes)}};
  // Layouts with a tensor for each layer, and with one for K and one for V of each.
  NamedLayout apart = layouts[0];
  apart.name = "layers apart";
  apart.layout.layer += 4096;
  layouts.push_back(apart);
  apart.name = "K and V apart";
  apart.layout.axis = 2 * apart.layout.layer * shape.layers;
  layouts.push_back(apart);
  return layouts;
}

// Returns the bytes within which a block of this layout lies.
inline uint64_t ExtentOf(const kernels::BlockLayout& layout, const KvShape& shape,
                         uint64_t row_bytes) {
  return (shape.layers - 1) * layout.layer + (shape.axes - 1) * layout.axis +
         (shape.tokens - 1) * layout.token + (shape.kv_heads - 1) * layout.head + row_bytes;
}

inline uint64_t RowAt(const kernels::BlockLayout& layout, uint64_t layer, uint64_t axis,
                      uint64_t token, uint64_t head) {
  return layer * layout.layer + axis * layout.axis + token * layout.token + head * layout.head;
}

struct Move {
  KvShape shape{};
  uint64_t row_bytes = 0;
  kernels::BlockLayout from{};
  kernels::BlockLayout to{};

  void Plainly(const std::byte* source, std::byte* destination) const {
    for (uint64_t layer = 0; layer < shape.layers; ++layer) {
      for (uint64_t axis = 0; axis < shape.axes; ++axis) {
        for (uint64_t token = 0; token < shape.tokens; ++token) {
          for (uint64_t head = 0; head < shape.kv_heads; ++head) {
            std::memcpy(destination + RowAt(to, layer, axis, token, head),
                        source + RowAt(from, layer, axis, token, head), row_bytes);
          }
        }
      }
    }
  }
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_LAYOUT_CASES_H_
