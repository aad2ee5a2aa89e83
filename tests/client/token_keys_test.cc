#include "client/token_keys.h"

#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns 0, 1, 2, ...
std::vector<uint32_t> Counting(size_t tokens) {
  std::vector<uint32_t> ids(tokens);
  std::iota(ids.begin(), ids.end(), 0U);
  return ids;
}

template <typename T>
TokenIds IdsOf(const std::vector<T>& tokens) {
  return std::span<const T>(tokens);
}

std::vector<std::string> HexOf(const absl::StatusOr<std::vector<EngineKey>>& keys) {
  EXPECT_TRUE(keys.ok()) << keys.status();
  std::vector<std::string> hex;
  for (const EngineKey& key : keys.value_or(std::vector<EngineKey>())) {
    hex.push_back(absl::BytesToHexString(key.bytes()));
  }
  return hex;
}

std::string ErrorOf(const absl::StatusOr<std::vector<EngineKey>>& keys) {
  EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(keys.status().message());
}

// Known answers of the plain form, computed with Python's hashlib and struct.
TEST(PlainTokenKeysTest, KeysAreTheKnownAnswers) {
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Plain(), 16, IdsOf(Counting(32)))),
              ElementsAre("51cb25a7b0db608c5e10ed9296f867d7c3fef15434d7db63e3f0bf3146cfafe1",
                          "f892b67b8173b70780003b164bb183329fc53da81fae1ef479a1504bdaeee976"));
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Plain("tenant-a"), 16, IdsOf(Counting(16)))),
              ElementsAre("13eb634fa2a37ccb47795662f71f14323cc63b77041bfaad041a4bbe301ee48c"));
  const std::vector<int64_t> ends = {0, std::numeric_limits<uint32_t>::max()};
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Plain(), 2, IdsOf(ends))),
              ElementsAre("cfaaed80ecbe671f8e08e0ede51e4a65345624d84aea47ce46d3edd960bf66d5"));
}

// Known answers of vLLM's form: some that vLLM published, and some computed with Python's hashlib
// over a CBOR encoder of a few lines.
TEST(VllmTokenKeysTest, KeysAreTheKnownAnswers) {
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Vllm(), 16, IdsOf(Counting(32)))),
              ElementsAre("dc918a88b139e5afe60b88eda27508d4aee16c10fdc354791efea06206ac0749",
                          "c300ec275d7bf08af8fc63e76cdc0086911bbc7091e03c5cf892553bef84ef0c"));
  const std::vector<uint32_t> one_to_four = {1, 2, 3, 4};
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Vllm(), 4, IdsOf(one_to_four))),
              ElementsAre("58d0879dff3800f65f8c5fd449d73048c0f7699dd238a03b84b146b151d55111"));
}

TEST(VllmTokenKeysTest, TheRootIsTheDigestOfTheSeed) {
  const auto root = [](absl::string_view seed) {
    const Sha256Digest digest = TokenHash::Vllm({}, seed).root();
    return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), digest.size()});
  };
  EXPECT_EQ(root("vllm-none-hash"),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
  EXPECT_EQ(root("0"), "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  EXPECT_NE(HexOf(HashTokens(TokenHash::Vllm({}, "0"), 16, IdsOf(Counting(16)))),
            HexOf(HashTokens(TokenHash::Vllm(), 16, IdsOf(Counting(16)))));
}

TEST(VllmTokenKeysTest, EveryLengthOfAnIdHasItsKnownAnswer) {
  const std::vector<uint64_t> ids = {
      23, 24, 255, 256, 65535, 65536, 0xffffffff, 0x100000000, (uint64_t{1} << 63) - 1, 0};
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Vllm(), 10, IdsOf(ids))),
              ElementsAre("d367a3e4f1a091cefa261d32c3fd8fbfc6933de2a92c8f5256391f07e645bd3f"));
}

TEST(VllmTokenKeysTest, ExtraKeysOfEveryTypeHaveTheirKnownAnswer) {
  const TokenHash salted = TokenHash::Vllm(VllmExtraKeys().Text("tenant-a"));
  EXPECT_THAT(HexOf(HashTokens(salted, 16, IdsOf(Counting(16)))),
              ElementsAre("6cb0a72bb1d5fcd9e8edc0a7c0d918f6545a8d98f4370ef894cac0191c41787a"));
  VllmExtraKeys extra_keys;
  extra_keys.Tuple(VllmExtraKeys().Text("lora").Text("adapter").Text("/l"))
      .Tuple(VllmExtraKeys().Text("mm").Text("img").Integer(-3))
      .Integer(7)
      .Bytes("\x01\x02")
      .None()
      .Text(std::string(30, 's'))
      .Integer(-25)
      .Integer(int64_t{1} << 40);
  const std::vector<uint32_t> one_to_four = {1, 2, 3, 4};
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Vllm(extra_keys), 4, IdsOf(one_to_four))),
              ElementsAre("e5e4275604df03106e2520a0578fa5e92caf5a5d88039d04d48bdc156265cd6d"));
}

TEST(TokenKeysTest, APartialLastBlockHasNoKey) {
  for (const TokenHash& hash : {TokenHash::Plain(), TokenHash::Vllm()}) {
    for (const auto& [tokens, blocks] :
         std::vector<std::pair<size_t, size_t>>{{0, 0}, {15, 0}, {16, 1}, {17, 1}, {31, 1}}) {
      EXPECT_EQ(HexOf(HashTokens(hash, 16, IdsOf(Counting(tokens)))).size(), blocks) << tokens;
    }
  }
}

TEST(TokenKeysTest, AGrownSequenceGoesOnFromItsLastKey) {
  for (const TokenHash& hash : {TokenHash::Plain("salt"), TokenHash::Vllm()}) {
    const std::vector<uint32_t> tokens = Counting(100);
    const auto whole = HashTokens(hash, 16, IdsOf(tokens));
    const auto begun = HashTokens(hash, 16, std::span<const uint32_t>(tokens).first(40));
    ASSERT_EQ(begun->size(), 2U);
    const auto rest =
        HashTokens(hash, 16, std::span<const uint32_t>(tokens).subspan(32), begun->back());
    std::vector<EngineKey> joined = *begun;
    joined.insert(joined.end(), rest->begin(), rest->end());
    EXPECT_EQ(joined, *whole);
  }
}

TEST(TokenKeysTest, AKeyNamesTheWholePrefixAndTheExtra) {
  std::vector<uint32_t> other = Counting(48);
  other[3] = 999;
  for (const TokenHash& hash : {TokenHash::Plain(), TokenHash::Vllm()}) {
    const auto one = HashTokens(hash, 16, IdsOf(Counting(48)));
    const auto two = HashTokens(hash, 16, IdsOf(other));
    for (size_t i = 0; i < 3; ++i) EXPECT_FALSE((*one)[i] == (*two)[i]) << i;
  }
  // Bytes that follow the tokens of a block cannot pass for more tokens.
  const std::vector<uint32_t> four = {1, 2, 3, 4};
  const std::vector<uint32_t> three = {1, 2, 3};
  EXPECT_NE(HexOf(HashTokens(TokenHash::Plain(std::string("\4\0\0\0", 4)), 3, IdsOf(three))),
            HexOf(HashTokens(TokenHash::Plain(), 4, IdsOf(four))));
}

TEST(TokenKeysTest, EqualIdsOfAnyWidthHaveEqualKeys) {
  const std::vector<uint32_t> u32 = Counting(32);
  const std::vector<int32_t> i32(u32.begin(), u32.end());
  const std::vector<uint64_t> u64(u32.begin(), u32.end());
  const std::vector<int64_t> i64(u32.begin(), u32.end());
  for (const TokenHash& hash : {TokenHash::Plain(), TokenHash::Vllm()}) {
    const auto keys = HexOf(HashTokens(hash, 8, IdsOf(u32)));
    EXPECT_EQ(HexOf(HashTokens(hash, 8, IdsOf(i32))), keys);
    EXPECT_EQ(HexOf(HashTokens(hash, 8, IdsOf(u64))), keys);
    EXPECT_EQ(HexOf(HashTokens(hash, 8, IdsOf(i64))), keys);
  }
}

TEST(TokenKeysTest, ErrorsNameTheFieldAndTheValue) {
  const std::vector<int32_t> negative = {1, 2, -1, 4};
  for (const TokenHash& hash : {TokenHash::Plain(), TokenHash::Vllm()}) {
    EXPECT_THAT(ErrorOf(HashTokens(hash, 2, IdsOf(negative))),
                AllOf(HasSubstr("tokens[2]"), HasSubstr("-1")));
    EXPECT_THAT(ErrorOf(HashTokens(hash, 0, IdsOf(negative))), HasSubstr("tokens_per_block is 0"));
    EXPECT_THAT(ErrorOf(HashTokens(hash, 2, IdsOf(Counting(4)),
                                   *EngineKey::FromBytes(std::string(16, 'k')))),
                AllOf(HasSubstr("parent"), HasSubstr("16 bytes")));
    const std::vector<uint64_t> large = {uint64_t{1} << 63};
    EXPECT_THAT(ErrorOf(HashTokens(hash, 1, IdsOf(large))),
                AllOf(HasSubstr("tokens[0]"), HasSubstr("9223372036854775808")));
  }
  const std::vector<int64_t> beyond_32_bits = {0, int64_t{1} << 32};
  EXPECT_THAT(ErrorOf(HashTokens(TokenHash::Plain(), 1, IdsOf(beyond_32_bits))),
              AllOf(HasSubstr("tokens[1]"), HasSubstr("4294967296")));
}

// The token is part of no key yet, so it has not been checked.
TEST(TokenKeysTest, ATokenOfAPartialBlockIsNotLookedAt) {
  const std::vector<int32_t> tokens = {1, 2, -1};
  EXPECT_THAT(HexOf(HashTokens(TokenHash::Plain(), 4, IdsOf(tokens))), IsEmpty());
  EXPECT_EQ(HexOf(HashTokens(TokenHash::Plain(), 2, IdsOf(tokens))).size(), 1U);
}

}  // namespace
}  // namespace kvtier
