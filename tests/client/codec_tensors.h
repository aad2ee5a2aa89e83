// CodecTensors is a small engine of which the spaces have codecs, for tests of the worker
// lanes: its tensors lie token by token or head by head.
#ifndef KVTIER_TESTS_CLIENT_CODEC_TENSORS_H_
#define KVTIER_TESTS_CLIENT_CODEC_TENSORS_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "client/block_codec.h"
#include "client/lanes/worker_pool.h"
#include "core/space_codec.h"
#include "tests/client/lanes_rig.h"
#include "tests/testing/kv_values.h"

namespace kvtier::testing {

inline constexpr kernels::KvShape kCodecShape = {
    .layers = 3, .axes = 2, .tokens = 16, .kv_heads = 2, .head_dim = 32};

class CodecTensors {
 public:
  explicit CodecTensors(KvOrder order, uint32_t slots = 8)
      : order_(order),
        memory_(PerLayerLayout,
                {.layers = kCodecShape.layers, .slots = slots, .run_bytes = 2 * kPlane}) {}

  KvTensors tensors() {
    KvTensors tensors = memory_.tensors();
    tensors.order = order_;
    return tensors;
  }
  std::unique_ptr<WorkerPool> Register(LanesRig* rig, const SpaceSpec& spec) {
    auto pool = WorkerPool::Register(&rig->lanes(), tensors(), spec);
    EXPECT_EQ(pool.status(), absl::OkStatus());
    return pool.ok() ? *std::move(pool) : nullptr;
  }
  SpaceSpec Space(const std::string& codec, bool room_for_raw) {
    SpaceSpec spec = memory_.space();
    spec.dtype = "bfloat16";
    spec.kv_heads = kCodecShape.kv_heads;
    spec.head_dim = kCodecShape.head_dim;
    spec.tokens_per_block = kCodecShape.tokens;
    spec.codec = codec;
    const auto sizes = SpaceCodec::Of(spec);
    EXPECT_EQ(sizes.status(), absl::OkStatus());
    spec.block_bytes = room_for_raw ? sizes->max_encoded_bytes() : sizes->encoded_bytes();
    return spec;
  }
  TensorMemory& memory() { return memory_; }
  // `values` are in the order of the stored block, tokens first.
  void Compute(uint32_t slot, const KvValues& values) {
    Visit(slot, [&](uint16_t* row, size_t at) { std::memcpy(row, &values[at], 2 * kRow); });
  }
  KvValues Read(uint32_t slot) {
    KvValues values(kernels::Planes(kCodecShape) * kPlane);
    Visit(slot, [&](const uint16_t* row, size_t at) { std::memcpy(&values[at], row, 2 * kRow); });
    return values;
  }

 private:
  static constexpr size_t kRow = kCodecShape.head_dim;
  static constexpr size_t kPlane = size_t{kCodecShape.tokens} * kCodecShape.kv_heads * kRow;

  template <typename Each>
  void Visit(uint32_t slot, Each each) {
    size_t at = 0;
    for (uint64_t plane = 0; plane < kernels::Planes(kCodecShape); ++plane) {
      auto* const rows =
          reinterpret_cast<uint16_t*>(memory_.run(plane / 2, plane % 2, slot).data());
      for (size_t token = 0; token < kCodecShape.tokens; ++token) {
        for (size_t head = 0; head < kCodecShape.kv_heads; ++head, at += kRow) {
          const size_t row = order_ == KvOrder::kTokenHead ? token * kCodecShape.kv_heads + head
                                                           : head * kCodecShape.tokens + token;
          each(rows + row * kRow, at);
        }
      }
    }
  }

  const KvOrder order_;
  TensorMemory memory_;
};

// What the CPU's codec makes of a block, there and back.
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
