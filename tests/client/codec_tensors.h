// CodecTensors is a small engine whose spaces have codecs, for tests of lanes. Its tensors have any
// of the layouts, token by token or head by head.
#ifndef KVTIER_TESTS_CLIENT_CODEC_TENSORS_H_
#define KVTIER_TESTS_CLIENT_CODEC_TENSORS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "client/block_codec.h"
#include "core/space_codec.h"
#include "tests/client/tensor_memory.h"
#include "tests/testing/kv_values.h"

namespace kvtier::testing {

inline constexpr KvShape kCodecShape = {
    .layers = 3, .axes = 2, .tokens = 16, .kv_heads = 2, .head_dim = 32};
inline constexpr KvShape kLatentShape = {
    .layers = 3, .axes = 1, .tokens = 16, .kv_heads = 1, .head_dim = 64};

class CodecTensors {
 public:
  explicit CodecTensors(KvOrder order, uint32_t slots = 8, LayoutMaker maker = PerLayerLayout)
      : order_(order), axes_(maker({1, 1, 1}).geometry.axes), memory_(maker, SizeOf(slots)) {}

  const KvShape& shape() const { return axes_ == KvAxes::kLatent ? kLatentShape : kCodecShape; }
  KvTensors tensors() {
    KvTensors tensors = memory_.tensors();
    tensors.order = order_;
    return tensors;
  }
  SpaceSpec Space(const std::string& codec, bool room_for_raw) {
    SpaceSpec spec = memory_.space();
    spec.dtype = "bfloat16";
    spec.layout = shape().axes == 2 ? "layer,kv,token,head,dim" : "layer,token,head,dim";
    spec.kv_heads = shape().kv_heads;
    spec.head_dim = shape().head_dim;
    spec.tokens_per_block = shape().tokens;
    spec.codec = codec;
    const auto sizes = SpaceCodec::Of(spec);
    EXPECT_EQ(sizes.status(), absl::OkStatus());
    spec.block_bytes = room_for_raw ? sizes->max_encoded_bytes() : sizes->encoded_bytes();
    return spec;
  }
  TensorMemory& memory() { return memory_; }
  // Writes `values`, which are in the codec's order: layer, axis, token, head.
  void Compute(uint32_t slot, const KvValues& values) {
    Visit(slot, [&](uint16_t* row, size_t at) { std::memcpy(row, &values[at], row_bytes()); });
  }
  KvValues Read(uint32_t slot) {
    KvValues values(RawBytes(shape()) / 2);
    Visit(slot,
          [&](const uint16_t* row, size_t at) { std::memcpy(&values[at], row, row_bytes()); });
    return values;
  }

 private:
  LayoutSize SizeOf(uint32_t slots) const {
    const uint64_t rows = axes_ == KvAxes::kFused ? 2 : 1;
    return {.layers = shape().layers, .slots = slots, .run_bytes = rows * RawPlaneBytes(shape())};
  }
  size_t row_bytes() const { return size_t{2} * shape().head_dim; }

  template <typename Each>
  void Visit(uint32_t slot, Each each) {
    const bool fused = axes_ == KvAxes::kFused;
    size_t at = 0;
    for (uint64_t plane = 0; plane < Planes(shape()); ++plane) {
      const uint64_t layer = plane / shape().axes;
      const uint64_t axis = plane % shape().axes;
      std::byte* const run = memory_.run(layer, fused ? 0 : axis, slot).data();
      for (size_t token = 0; token < shape().tokens; ++token) {
        for (size_t head = 0; head < shape().kv_heads; ++head, at += shape().head_dim) {
          size_t row = order_ == KvOrder::kTokenHead ? token * shape().kv_heads + head
                                                     : head * shape().tokens + token;
          if (fused) row = 2 * row + axis;
          each(reinterpret_cast<uint16_t*>(run + row * row_bytes()), at);
        }
      }
    }
  }

  const KvOrder order_;
  const KvAxes axes_;
  TensorMemory memory_;
};

// Returns a block encoded and decoded by the CPU's codec.
inline KvValues ThereAndBack(const SpaceSpec& spec, const KvValues& values) {
  const auto codec = *BlockCodec::For(spec);
  std::vector<std::byte> stored(spec.block_bytes);
  KvValues back(values.size());
  EXPECT_TRUE(codec.Encode(std::as_bytes(std::span(values)), stored).ok());
  EXPECT_EQ(codec.Decode(stored, std::as_writable_bytes(std::span(back))), absl::OkStatus());
  return back;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_CLIENT_CODEC_TENSORS_H_
