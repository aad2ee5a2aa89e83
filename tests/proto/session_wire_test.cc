#include "proto/session_wire.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/block_key.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/layout_digest.h"

namespace kvtier::wire {
namespace {

using ::testing::HasSubstr;

template <typename Packet>
std::vector<std::byte> BytesOf(const Packet& packet) {
  std::vector<std::byte> bytes(sizeof(packet));
  std::memcpy(bytes.data(), &packet, sizeof(packet));
  return bytes;
}

void ExpectRefused(const absl::Status& status, const std::vector<std::string>& texts) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  for (const std::string& text : texts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

Hello HelloOf(const std::string& tenant) {
  Hello hello;
  std::copy(tenant.begin(), tenant.end(), hello.tenant.begin());
  hello.proof.fill(0xab);
  return hello;
}

TEST(Hello, ParsesWhatWasSent) {
  Hello sent = HelloOf("tenant-a");
  sent.version = 9;  // ParseHello() does not check it.
  const auto hello = ParseHello(BytesOf(sent));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_STREQ(hello->tenant.data(), "tenant-a");
  EXPECT_EQ(hello->proof, sent.proof);
  EXPECT_EQ(hello->version, 9);
}

TEST(Hello, RefusesAnyOtherSize) {
  std::vector<std::byte> bytes = BytesOf(HelloOf("t"));
  bytes.pop_back();
  ExpectRefused(ParseHello(bytes).status(), {"Hello", "175", "176"});
  bytes.resize(sizeof(Hello) + 1);
  ExpectRefused(ParseHello(bytes).status(), {"Hello", "177"});
  ExpectRefused(ParseHello({}).status(), {"Hello", "0 bytes"});
}

TEST(Hello, TheGroupIsANameOrNone) {
  Hello hello = HelloOf("t");
  EXPECT_STREQ(ParseHello(BytesOf(hello))->group.data(), "");
  absl::string_view("prompts").copy(hello.group.data(), hello.group.size());
  EXPECT_STREQ(ParseHello(BytesOf(hello))->group.data(), "prompts");
  hello.group[9] = 'x';
  ExpectRefused(ParseHello(BytesOf(hello)).status(), {"Hello group has byte 120 at 9", "end at 7"});
  hello.group.fill('g');
  ExpectRefused(ParseHello(BytesOf(hello)).status(), {"Hello group has no end"});
}

TEST(Hello, RefusesAnotherMagic) {
  Hello hello = HelloOf("t");
  hello.magic = 0xdeadbeef;
  ExpectRefused(ParseHello(BytesOf(hello)).status(), {"magic", "0xdeadbeef", "0x5354564b"});
}

TEST(Hello, TheLongestNameEndsInItsField) {
  EXPECT_TRUE(ParseHello(BytesOf(HelloOf(std::string(kMaxTenantBytes, 't')))).ok());
  ExpectRefused(ParseHello(BytesOf(HelloOf(std::string(kMaxTenantBytes + 1, 't')))).status(),
                {"tenant", "no end", "63"});
}

TEST(Hello, RefusesBytesBehindTheNamesEnd) {
  Hello hello = HelloOf("t");
  hello.tenant[5] = 'x';
  ExpectRefused(ParseHello(BytesOf(hello)).status(), {"tenant", "120", "at 5"});
}

TEST(DescriptorRequest, ParsesEachKindAndRefusesOthers) {
  for (const uint32_t kind : {1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
    const DescriptorRequest sent{.kind = static_cast<DescriptorKind>(kind)};
    EXPECT_EQ(ParseDescriptorRequest(BytesOf(sent))->kind, sent.kind);
  }
  for (const uint32_t kind : {0u, 8u, 0xffffffffu}) {
    const DescriptorRequest sent{.kind = static_cast<DescriptorKind>(kind)};
    ExpectRefused(ParseDescriptorRequest(BytesOf(sent)).status(),
                  {"DescriptorRequest kind is " + std::to_string(kind), "1 to 7"});
  }
}

TEST(DescriptorRequest, OnlyThePoolHasMoreThanOneHandle) {
  DescriptorRequest sent{.kind = DescriptorKind::kGpuPool, .index = kMaxHandles - 1};
  EXPECT_EQ(ParseDescriptorRequest(BytesOf(sent))->index, kMaxHandles - 1);
  sent.index = kMaxHandles;
  ExpectRefused(ParseDescriptorRequest(BytesOf(sent)).status(), {"index is 253"});
  sent = {.kind = DescriptorKind::kSignalPage, .index = 1};
  ExpectRefused(ParseDescriptorRequest(BytesOf(sent)).status(), {"index is 1", "kind 4"});
}

TEST(DescriptorRequest, RefusesAnotherSizeOrMagic) {
  DescriptorRequest sent{.magic = 1, .kind = DescriptorKind::kArenaRead};
  ExpectRefused(ParseDescriptorRequest(BytesOf(sent)).status(), {"magic"});
  std::vector<std::byte> bytes = BytesOf(sent);
  bytes.pop_back();
  ExpectRefused(ParseDescriptorRequest(bytes).status(), {"31 bytes"});
  sent = {.kind = DescriptorKind::kArenaRead, .reserved = 7};
  ExpectRefused(ParseDescriptorRequest(BytesOf(sent)).status(), {"reserved is 7"});
}

TEST(Versions, TwoSpeakTheNewestThatBothKnow) {
  EXPECT_EQ(SpokenVersion(kSessionVersion, kMinSessionVersion), kSessionVersion);
  EXPECT_EQ(SpokenVersion(kSessionVersion + 3, kSessionVersion), kSessionVersion);
  EXPECT_EQ(SpokenVersion(1, 0), 1);
  EXPECT_EQ(SpokenVersion(kSessionVersion + 1, kSessionVersion + 1), 0);
  EXPECT_EQ(SpokenVersion(kMinSessionVersion - 1, 0), 0);
  EXPECT_EQ(SpokenVersion(1, 2), 0) << "upside down";
}

TEST(Layout, IsKnownOfTheVersionsThatWeSpeak) {
  EXPECT_NE(LayoutDigest(kSessionVersion), 0u);
  EXPECT_EQ(LayoutDigest(0), 0u);
  EXPECT_EQ(LayoutDigest(kSessionVersion + 1), 0u);
  EXPECT_EQ(LayoutText(0x1f), "000000000000001f");
}

Hello HelloOfLayout(uint64_t layout) {
  Hello hello = HelloOf("t");
  hello.layout = layout;
  return hello;
}

TEST(Layout, OfAnotherBuildIsRefusedAndBothAreNamed) {
  const uint64_t ours = LayoutDigest(1);
  EXPECT_EQ(AnswerTo(HelloOfLayout(ours)).code, WelcomeCode::kOk);
  const Hello other = HelloOfLayout(ours + 1);
  EXPECT_EQ(AnswerTo(other).code, WelcomeCode::kLayoutMismatch);
  EXPECT_EQ(AnswerTo(other).layout, ours);
  EXPECT_THAT(WhyRefused(other), HasSubstr(LayoutText(ours)));
  EXPECT_THAT(WhyRefused(other), HasSubstr(LayoutText(ours + 1)));
  EXPECT_EQ(AnswerTo(HelloOfLayout(0)).code, WelcomeCode::kLayoutMismatch);
}

TEST(Layout, IsThatOfTheVersionThatBothSpeak) {
  Hello newer = HelloOfLayout(LayoutDigest(1));
  newer.version = 2;
  EXPECT_EQ(AnswerTo(newer).code, WelcomeCode::kOk);
  newer.min_version = 2;
  EXPECT_EQ(AnswerTo(newer).code, WelcomeCode::kVersionMismatch);
  EXPECT_THAT(WhyRefused(newer),
              HasSubstr("the worker speaks session versions 2 to 2, this agent 1 to 1"));
}

// Recomputed with another implementation:
//   printf 'kvtier.session.v1\0' > m; head -c 32 /dev/zero >> m
//   openssl dgst -sha256 -mac HMAC -macopt hexkey:<64 zeros> m
TEST(Proof, IsTheDocumentedHmac) {
  const std::array<uint8_t, 32> nonce{};
  const auto proof = SessionProof(SessionKey{}, nonce);
  const std::string hex = absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(proof.data()), proof.size()));
  EXPECT_EQ(hex, "4654af56efa1e653ff17b03ce8866b5fe5529f1673b95ef83cac39925ba29279");
}

TEST(Proof, DependsOnTenantAndNonce) {
  const std::array<uint8_t, 32> nonce{};
  std::array<uint8_t, 32> other_nonce{};
  other_nonce[31] = 1;
  const SessionKey key = SessionKey::FromSecret("a");
  EXPECT_NE(SessionProof(key, nonce), SessionProof(SessionKey::FromSecret("b"), nonce));
  EXPECT_NE(SessionProof(key, nonce), SessionProof(key, other_nonce));
}

// Members of a share group are told its TenantKey, so that key must prove nothing.
TEST(Proof, IsNotUnderTheKeyThatNamesBlocks) {
  EXPECT_NE(SessionKey::FromSecret("a").bytes, TenantKey::FromSecret("a").bytes);
}

}  // namespace
}  // namespace kvtier::wire
