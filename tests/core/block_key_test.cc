#include "core/block_key.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

// Returns the bytes 0, 1, 2, ...
std::string Counting(size_t size) {
  std::string bytes;
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

EngineKey CountingKey(size_t size) { return *EngineKey::FromBytes(Counting(size)); }

SpaceDigest CountingSpace() {
  SpaceDigest space;
  for (size_t i = 0; i < space.bytes.size(); ++i) space.bytes[i] = static_cast<uint8_t>(i);
  return space;
}

std::string Hex(const TenantKey& key) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(key.bytes.data()), 32});
}

TEST(EngineKey, KeepsBytesOfEveryAllowedLength) {
  for (size_t size = kMinEngineKeyBytes; size <= kMaxEngineKeyBytes; ++size) {
    const auto key = EngineKey::FromBytes(Counting(size));
    ASSERT_TRUE(key.ok()) << size;
    EXPECT_EQ(key->bytes(), Counting(size));
  }
}

TEST(EngineKey, RefusesOtherLengthsAndNamesThem) {
  for (const size_t size : {0, 1, 7, 65, 4096}) {
    const auto key = EngineKey::FromBytes(Counting(size));
    EXPECT_EQ(key.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(std::string(key.status().message()), HasSubstr(std::to_string(size) + " bytes"));
  }
}

TEST(EngineKey, DiffersFromItsOwnPrefix) {
  EXPECT_EQ(CountingKey(16), CountingKey(16));
  EXPECT_FALSE(CountingKey(16) == CountingKey(17));
  // The keys differ although their bytes are the same up to trailing zeros, because the length
  // counts.
  EXPECT_FALSE(*EngineKey::FromBytes(std::string(8, '\0')) ==
               *EngineKey::FromBytes(std::string(9, '\0')));
}

// Known answers here and below: Python's hashlib and hmac.
TEST(TenantKey, IsTheTaggedHashOfTheSecret) {
  EXPECT_EQ(Hex(TenantKey::FromSecret("")),
            "09a7025715e0cb53d34d5b4b9b5dbeb16bcd79d7c59c6d0f65c40d2efa5875d9");
  EXPECT_EQ(Hex(TenantKey::FromSecret("correct horse")),
            "1b0c24d4354e3d47a6957c10f25c2509e95b4245b7427371d8d4d76f83c58d90");
}

TEST(BlockKey, GoesThroughBytesAndHexUnchanged) {
  const BlockKey key{.hi = 0x0123456789abcdef, .lo = 0xfedcba9876543210};
  EXPECT_EQ(key.ToHex(), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(key.ToBytes().front(), 0x01);
  const auto bytes = key.ToBytes();
  const auto from_bytes = BlockKey::FromBytes({reinterpret_cast<const char*>(bytes.data()), 16});
  ASSERT_TRUE(from_bytes.ok());
  EXPECT_EQ(*from_bytes, key);
  EXPECT_EQ(*BlockKey::FromHex(key.ToHex()), key);
  EXPECT_EQ(*BlockKey::FromHex("0123456789ABCDEFFEDCBA9876543210"), key);
}

TEST(BlockKey, SortsAsItsBytesSort) {
  const std::vector<BlockKey> keys = {{0, 0}, {0, 1},   {0, ~uint64_t{0}},
                                      {1, 0}, {256, 3}, {256, 4}};
  for (size_t i = 1; i < keys.size(); ++i) {
    EXPECT_LT(keys[i - 1], keys[i]);
    EXPECT_LT(keys[i - 1].ToBytes(), keys[i].ToBytes());
  }
}

TEST(BlockKey, RefusesBytesAndHexOfAnotherShape) {
  for (const size_t size : {0, 15, 17}) {
    EXPECT_EQ(BlockKey::FromBytes(Counting(size)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (const std::string& hex : {std::string(), std::string(31, 'a'), std::string(33, 'a'),
                                 std::string(31, 'a') + "g", std::string(32, '\n')}) {
    EXPECT_EQ(BlockKey::FromHex(hex).status().code(), absl::StatusCode::kInvalidArgument) << hex;
  }
}

TEST(SpaceDigest, PrintsAsLowerCaseHex) {
  EXPECT_EQ(CountingSpace().ToHex(),
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
}

struct NameCase {
  size_t engine_key_bytes;
  const char* named_by_secret;   // Tenant secret "correct horse".
  const char* named_by_default;  // Key with an empty secret.
};

TEST(BlockNamer, NamesAsHmacSha256Does) {
  const BlockNamer secret(TenantKey::FromSecret("correct horse"), CountingSpace());
  const BlockNamer open(TenantKey::FromSecret(""), CountingSpace());
  for (const NameCase& c : {
           NameCase{8, "20d22dd97a994f4c6ca74c5101bdb6c1", "51a0e31bc2491ca90de5f41c9d6c1365"},
           NameCase{16, "74de802382c799449845a2e81e83456a", "7b49cad7e27d8b3556b7f41a2032b3e7"},
           NameCase{32, "03a6b36cc282074442fe0b1702ccae0e", "09990c8d25a7fbd53bfc2e9f2286b8a9"},
           NameCase{55, "ebdd53630ea8ad4b1670752ee8a3941a", "373773cc1f620dc51855182c6e39f0a0"},
           NameCase{56, "7873c8bc6cd73332d01d4e5b78465afc", "a3987a8c13d95c9cfb7b8e6368962ddd"},
           NameCase{64, "a5c40c2e7b0c826c81b83a813db42859", "d855f4c6df59bb21bea4a28d40dcbb63"},
       }) {
    EXPECT_EQ(secret.Name(CountingKey(c.engine_key_bytes)).ToHex(), c.named_by_secret);
    EXPECT_EQ(open.Name(CountingKey(c.engine_key_bytes)).ToHex(), c.named_by_default);
  }
}

TEST(BlockNamer, GivesTenantsAndSpacesDisjointNames) {
  SpaceDigest other_space = CountingSpace();
  other_space.bytes[31] ^= 1;
  std::set<BlockKey> names;
  for (const char* secret : {"", "a", "b"}) {
    for (const SpaceDigest& space : {CountingSpace(), other_space}) {
      const BlockNamer namer(TenantKey::FromSecret(secret), space);
      for (size_t size = kMinEngineKeyBytes; size <= kMaxEngineKeyBytes; ++size) {
        names.insert(namer.Name(CountingKey(size)));
      }
    }
  }
  EXPECT_EQ(names.size(), size_t{3} * 2 * (kMaxEngineKeyBytes - kMinEngineKeyBytes + 1));
}

TEST(BlockNamer, NamesTheSameAgainAndAfterAMove) {
  BlockNamer namer(TenantKey::FromSecret("s"), CountingSpace());
  const BlockKey first = namer.Name(CountingKey(16));
  EXPECT_NE(namer.Name(CountingKey(17)), first);
  EXPECT_EQ(namer.Name(CountingKey(16)), first);
  const BlockNamer moved = std::move(namer);
  EXPECT_EQ(moved.Name(CountingKey(16)), first);
}

// Two short keys in a row are hashed as a pair (Sha256Lanes); single and long keys are hashed
// alone.
TEST(BlockNamer, NamesManyAsItNamesEach) {
  const BlockNamer namer(TenantKey::FromSecret("a secret of tests"), CountingSpace());
  std::vector<EngineKey> keys;
  for (size_t size = kMinEngineKeyBytes; size <= kMaxEngineKeyBytes; ++size) {
    keys.push_back(CountingKey(size));
  }
  for (size_t i = kMinEngineKeyBytes; i <= kMaxEngineKeyBytes; i += 7) {
    keys.push_back(CountingKey(kMaxEngineKeyBytes + kMinEngineKeyBytes - i));
  }
  for (size_t count = 0; count <= keys.size(); ++count) {
    std::vector<BlockKey> names(count);
    namer.NameAll(std::span(keys).first(count), names);
    for (size_t i = 0; i < count; ++i) ASSERT_EQ(names[i], namer.Name(keys[i])) << i;
  }
}

}  // namespace
}  // namespace kvtier
