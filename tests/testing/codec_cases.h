// The blocks on which both forms of the codecs are tested: values of every kind, values that must
// stay raw, and encodings that are whole, cut or damaged.
#ifndef KVTIER_TESTS_TESTING_CODEC_CASES_H_
#define KVTIER_TESTS_TESTING_CODEC_CASES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/codec.h"
#include "tests/testing/kv_values.h"

namespace kvtier::testing {

using BlockBytes = std::vector<std::byte>;
enum class Room { kWhole, kShort };

inline BlockBytes BytesOf(const KvValues& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

// Returns a shape with heads of any size: groups that fit into a warp, do not divide it, or are
// longer.
inline KvShape RandomShape(std::mt19937_64& random) {
  const auto up_to = [&random](uint32_t most) {
    return 1 + static_cast<uint32_t>(random() % most);
  };
  KvShape shape = {.layers = up_to(2),
                   .axes = up_to(2),
                   .tokens = up_to(40),
                   .kv_heads = up_to(3),
                   .head_dim = 16 * up_to(20)};
  if (random() % 4 == 0) shape = {1, up_to(2), up_to(3), 1, 16 * (30 + up_to(60))};
  return shape;
}

inline std::vector<BlockBytes> EncodeCases(const KvShape& shape, std::mt19937_64& random) {
  const uint64_t count = RawBytes(shape) / 2;
  std::vector<KvValues> cases = {GaussianValues(shape, random(), 30)};
  // These blocks have one value that is not finite, in the first, the last and any place.
  for (const uint16_t odd : {0x7f80, 0xffc1, 0xff80}) {
    cases.push_back(cases[0]);
    const uint64_t places[] = {0, count - 1, random() % count};
    cases.back()[places[random() % 3]] = odd;
  }
  // These blocks have quantisation steps that are subnormal, zero or the largest, and signed zeros.
  KvValues tiny(count);
  for (uint16_t& value : tiny) value = static_cast<uint16_t>(random() & 0x80ff);
  cases.push_back(std::move(tiny));
  KvValues zeros(count);
  for (uint16_t& value : zeros) value = static_cast<uint16_t>(random() & 0x8000);
  cases.push_back(std::move(zeros));
  KvValues huge(count);
  for (uint16_t& value : huge) value = static_cast<uint16_t>(0x7e00 + random() % 0x180);
  cases.push_back(std::move(huge));
  // This block has every finite number, so its exponents do not pack.
  KvValues any(count);
  for (uint16_t& value : any) {
    do {
      value = static_cast<uint16_t>(random());
    } while ((value & 0x7f80) == 0x7f80);
  }
  cases.push_back(std::move(any));
  // These blocks have about as many escapes as there is room for.
  KvValues escaped(count, 0x3f80);
  const uint64_t most = PackedPlaneOf(shape).most_escapes();
  for (uint64_t i = 0; i < most + random() % 3; ++i) {
    escaped[random() % PlaneElements(shape)] = static_cast<uint16_t>(0x1000 + i);
  }
  cases.push_back(std::move(escaped));
  std::vector<BlockBytes> blocks;
  for (const KvValues& values : cases) blocks.push_back(BytesOf(values));
  blocks.push_back(blocks[0]);
  blocks.back().resize(blocks[0].size() - 1);
  return blocks;
}

// Returns `encodings`, followed by a damaged copy of each.
inline std::vector<BlockBytes> DecodeCases(std::vector<BlockBytes> encodings,
                                           std::mt19937_64& random) {
  const size_t whole = encodings.size();
  for (size_t i = 0; i < whole; ++i) {
    BlockBytes damaged = encodings[i];
    if (damaged.empty()) continue;
    // The damage is one bit of the header, a cut, or a few bytes after the header.
    const uint64_t header = kEncodedHeaderBytes;
    if (i % 4 == 0) damaged[random() % header] ^= std::byte{0x40};
    if (i % 4 == 1) damaged.resize(random() % damaged.size());
    if (i % 4 > 1) {
      for (int change = 0; change < 9; ++change) {
        damaged[header + random() % (damaged.size() - header)] = static_cast<std::byte>(random());
      }
    }
    encodings.push_back(std::move(damaged));
  }
  return encodings;
}

}  // namespace kvtier::testing

#endif  // KVTIER_TESTS_TESTING_CODEC_CASES_H_
