#include "tests/testing/blocks.h"

#include <xxhash.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/byte_order.h"

namespace kvtier::testing {
namespace {

static_assert(std::endian::native == std::endian::little, "words are copied as they lie");

// Returns word `index` of a block, by splitmix64: a counter and a mix (Steele, Lea and Flood, "Fast
// splittable pseudorandom number generators", 2014).
uint64_t NoiseWord(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t BlockSeed(uint64_t tenant_seed, const EngineKey& key) {
  return XXH3_64bits_withSeed(key.bytes().data(), key.bytes().size(), tenant_seed);
}

}  // namespace

EngineKey TestEngineKey(uint64_t number) {
  std::array<uint8_t, 16> bytes = {'t', 'e', 's', 't', '-', 'k', 'e', 'y'};
  StoreBig(number, bytes.data() + 8);
  return *EngineKey::FromBytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

SpaceSpec TestSpace(uint64_t block_bytes) {
  return {.model = "test-model",
          .weights_digest = "sha256:0123456789abcdef",
          .dtype = "bfloat16",
          .layout = "layer,kv,token,head,dim",
          .layers = 2,
          .kv_heads = 2,
          .head_dim = 64,
          .tokens_per_block = 16,
          .block_bytes = block_bytes};
}

SpaceSpec AnyLengthSpace(uint64_t longest) {
  SpaceSpec spec = TestSpace(longest);
  spec.any_length = true;
  return spec;
}

void FillBlock(uint64_t tenant_seed, const EngineKey& key, std::span<std::byte> block) {
  const uint64_t seed = BlockSeed(tenant_seed, key);
  const size_t words = block.size() / sizeof(uint64_t);
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = NoiseWord(seed, i);
    std::memcpy(block.data() + i * sizeof(word), &word, sizeof(word));
  }
  const uint64_t last = NoiseWord(seed, words);
  if (block.size() % sizeof(last) == 0) return;
  std::memcpy(block.data() + words * sizeof(last), &last, block.size() % sizeof(last));
}

bool HoldsBlock(uint64_t tenant_seed, const EngineKey& key, std::span<const std::byte> block) {
  const uint64_t seed = BlockSeed(tenant_seed, key);
  const size_t words = block.size() / sizeof(uint64_t);
  for (size_t i = 0; i < words; ++i) {
    const uint64_t word = NoiseWord(seed, i);
    if (std::memcmp(block.data() + i * sizeof(word), &word, sizeof(word)) != 0) return false;
  }
  const uint64_t last = NoiseWord(seed, words);
  if (block.size() % sizeof(last) == 0) return true;
  return std::memcmp(block.data() + words * sizeof(last), &last, block.size() % sizeof(last)) == 0;
}

}  // namespace kvtier::testing
