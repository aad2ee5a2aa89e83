// TensorMemory plays an inference engine's KV tensors for tests of the worker lanes: one layout of
// plan_layouts.h in host memory, which the emulated device adopts. The memory around and between
// the tensors must not be touched.
#ifndef KVTIER_TESTS_CLIENT_TENSOR_MEMORY_H_
#define KVTIER_TESTS_CLIENT_TENSOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "absl/time/time.h"
#include "client/lanes/kv_tensors.h"
#include "core/space.h"
#include "tests/tier_gpu/plan_layouts.h"

namespace kvtier::testing {

// Maximum time for which tests of lanes wait for a job.
inline constexpr absl::Duration kLong = absl::Seconds(20);

// Returns `count` slots from `first` on.
inline std::vector<uint32_t> Slots(uint32_t first, size_t count) {
  std::vector<uint32_t> slots(count);
  std::iota(slots.begin(), slots.end(), first);
  return slots;
}

class TensorMemory {
 public:
  TensorMemory(LayoutMaker maker, LayoutSize size);
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  const Layout& layout() const { return layout_; }
  KvTensors tensors();
  // Returns a space of such blocks.
  SpaceSpec space() const;

  // Writes the KV of block `content` into the slot: every byte depends on all of content, layer,
  // axis and place.
  void Compute(uint32_t slot, uint64_t content);
  // Returns whether the slot's layers in [first, first + count) are those of `content`.
  bool Holds(uint32_t slot, uint64_t content, uint32_t first, uint32_t count) const;
  bool Holds(uint32_t slot, uint64_t content) const {
    return Holds(slot, content, 0, layout_.geometry.layers);
  }
  std::span<std::byte> run(uint64_t layer, uint64_t axis, uint32_t slot);
  // Returns the whole memory, including that around the tensors.
  std::span<std::byte> bytes() { return bytes_; }

 private:
  std::byte* at(uint64_t offset) { return bytes_.data() + kGuardBytes + offset; }

  static constexpr uint64_t kGuardBytes = 4096;
  const Layout layout_;
  std::vector<std::byte> bytes_;
};

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CLIENT_TENSOR_MEMORY_H_
