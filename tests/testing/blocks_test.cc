#include "tests/testing/blocks.h"

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace kvtier::testing {
namespace {

std::vector<std::byte> Filled(uint64_t tenant_seed, uint64_t key, size_t size) {
  std::vector<std::byte> block(size);
  FillBlock(tenant_seed, TestEngineKey(key), block);
  return block;
}

TEST(FillBlock, FillsTheSameAgainAndHoldsBlockAgrees) {
  for (const size_t size : {0, 1, 7, 8, 9, 4095, 4096, 4097}) {
    const std::vector<std::byte> block = Filled(1, 2, size);
    EXPECT_EQ(block, Filled(1, 2, size));
    EXPECT_TRUE(HoldsBlock(1, TestEngineKey(2), block));
  }
}

TEST(FillBlock, WritesNothingBesideTheBlock) {
  std::vector<std::byte> guarded(8 + 13 + 8, std::byte{0xee});
  FillBlock(1, TestEngineKey(2), std::span(guarded).subspan(8, 13));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(guarded[i], std::byte{0xee});
    EXPECT_EQ(guarded[guarded.size() - 1 - i], std::byte{0xee});
  }
}

// No 8 bytes of any of 64 blocks occur in another: not shifted copies either.
TEST(FillBlock, TenantsAndKeysShareNoWord) {
  std::set<uint64_t> words;
  constexpr size_t kBlockBytes = 4096;
  for (uint64_t tenant = 0; tenant < 8; ++tenant) {
    for (uint64_t key = 0; key < 8; ++key) {
      const std::vector<std::byte> block = Filled(tenant, key, kBlockBytes);
      for (size_t i = 0; i < kBlockBytes; i += 8) {
        uint64_t word = 0;
        std::memcpy(&word, block.data() + i, sizeof(word));
        words.insert(word);
      }
    }
  }
  EXPECT_EQ(words.size(), 64 * kBlockBytes / 8);
}

TEST(HoldsBlock, NoticesAnyFlippedBit) {
  std::vector<std::byte> block = Filled(1, 2, 101);
  for (std::byte& byte : block) {
    byte ^= std::byte{0x80};
    EXPECT_FALSE(HoldsBlock(1, TestEngineKey(2), block));
    byte ^= std::byte{0x80};
  }
}

TEST(TestSpace, IsValid) {
  EXPECT_TRUE(TestSpace(4096).Validate().ok());
  EXPECT_NE(TestSpace(4096).Digest(), TestSpace(8192).Digest());
}

}  // namespace
}  // namespace kvtier::testing
