// Blocks of bf16 values and their encodings, for both forms of the codecs.
#ifndef KVTIER_TESTS_TESTING_KV_VALUES_H_
#define KVTIER_TESTS_TESTING_KV_VALUES_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "kernels/codec.h"
#include "kernels/float_formats.h"

namespace kvtier {

inline std::ostream& operator<<(std::ostream& out, const KvShape& shape) {
  return out << shape.layers << " layers of " << shape.axes << " axes, " << shape.tokens
             << " tokens, " << shape.kv_heads << " heads of " << shape.head_dim;
}

}  // namespace kvtier

namespace kvtier::testing {

inline constexpr Codec kAllCodecs[] = {Codec::kRaw, Codec::kFp8E4m3, Codec::kInt8,
                                       Codec::kPackedExponents};

inline constexpr KvShape kSmallShape = {.layers = 2, .tokens = 16, .kv_heads = 2, .head_dim = 128};

// Returns shapes with one token, the usual head sizes, odd numbers of tokens, and one axis.
inline std::vector<KvShape> KvShapes() {
  return {
      {.layers = 1, .tokens = 1, .kv_heads = 1, .head_dim = 16},
      {.layers = 2, .tokens = 1, .kv_heads = 3, .head_dim = 64},
      {.layers = 2, .tokens = 7, .kv_heads = 3, .head_dim = 80},
      {.layers = 3, .tokens = 16, .kv_heads = 8, .head_dim = 128},
      {.layers = 1, .tokens = 33, .kv_heads = 2, .head_dim = 256},
      {.layers = 2, .tokens = 64, .kv_heads = 1, .head_dim = 48},
      {.layers = 2, .axes = 1, .tokens = 64, .kv_heads = 1, .head_dim = 576},
      {.layers = 1, .tokens = 256, .kv_heads = 4, .head_dim = 128},
  };
}

using KvValues = std::vector<uint16_t>;  // Bits of bf16 values.

// Returns Gaussian values. Every 32nd channel of each K is `outlier` times larger.
inline KvValues GaussianValues(const KvShape& shape, uint64_t seed, float outlier = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> gauss;
  KvValues values(RawBytes(shape) / 2);
  const uint64_t plane = PlaneElements(shape);
  for (uint64_t i = 0; i < values.size(); ++i) {
    const bool is_key = i / plane % shape.axes == 0;
    const bool is_outlier = is_key && i % Channels(shape) % 32 == 0;
    values[i] = kernels::Bf16FromFloat(gauss(random) * (is_outlier ? outlier : 1));
  }
  return values;
}

// Returns ||values - others|| / ||values||.
inline double RelativeError(std::span<const uint16_t> values, std::span<const uint16_t> others) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = kernels::FloatFromBf16(values[i]);
    const double difference = value - kernels::FloatFromBf16(others[i]);
    error += difference * difference;
    norm += value * value;
  }
  return std::sqrt(error / norm);
}

// Encoded is one block, encoded and decoded on the host, in buffers that were poisoned first.
struct Encoded {
  std::vector<std::byte> bytes;  // outcome.bytes of them.
  kernels::CodecOutcome outcome;
};

inline Encoded EncodeValues(Codec codec, const KvShape& shape, const KvValues& values) {
  Encoded encoded;
  encoded.bytes.assign(MaxEncodedBytes(shape), std::byte{0xa5});
  const kernels::CodecBlock block = {.source = std::as_bytes(std::span(values)).data(),
                                     .source_bytes = values.size() * 2,
                                     .destination = encoded.bytes.data(),
                                     .destination_bytes = encoded.bytes.size()};
  const int error = kernels::EncodeOnHost(
      {.codec = codec, .shape = shape, .blocks = &block, .outcomes = &encoded.outcome, .count = 1});
  encoded.bytes.resize(error == 0 ? encoded.outcome.bytes : 0);
  return encoded;
}

// Returns the decoded values; empty if the encoding was refused.
inline KvValues DecodeValues(Codec codec, const KvShape& shape,
                             std::span<const std::byte> encoding) {
  KvValues values(RawBytes(shape) / 2, 0xa5a5);
  kernels::CodecOutcome outcome;
  const kernels::CodecBlock block = {
      .source = encoding.data(),
      .source_bytes = encoding.size(),
      .destination = std::as_writable_bytes(std::span(values)).data(),
      .destination_bytes = values.size() * 2};
  const int error = kernels::DecodeOnHost(
      {.codec = codec, .shape = shape, .blocks = &block, .outcomes = &outcome, .count = 1});
  values.resize(error == 0 ? outcome.bytes / 2 : 0);
  return values;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_KV_VALUES_H_
