#include "core/checksum.h"

#include <cstring>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kvtier {
namespace {

using ::testing::HasSubstr;

// XXH3 changes its method at 16, 128, 240 and 1024 bytes.
constexpr size_t kBoundarySizes[] = {0,   1,   8,    16,   17,   128,  129,
                                     240, 241, 1024, 1025, 4096, 4097, 1 << 20};

std::vector<std::byte> Pattern(size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 % 256);
  return bytes;
}

BlockIdentity KnownIdentity(uint64_t length) {
  BlockIdentity identity{
      .key = {0x0123456789abcdef, 0xfedcba9876543210}, .length = length, .generation = 7};
  for (size_t i = 0; i < 32; ++i) identity.space.bytes[i] = static_cast<uint8_t>(i);
  return identity;
}

// Known answers here and below: the Python package xxhash 3.
TEST(SumPayload, HasTheKnownAnswers) {
  EXPECT_EQ(SumPayload({}), (PayloadSum{0x99aa06d3014798d8, 0x6001c324468d497f}));
  const std::string abc = "abc";
  EXPECT_EQ(SumPayload(std::as_bytes(std::span(abc))),
            (PayloadSum{0x06b05ab6733a6185, 0x78af5f94892f3950}));
  EXPECT_EQ(SumPayload(Pattern(4096)), (PayloadSum{0xe0ef0909b1bdd88b, 0x8fb047a89e810965}));
  std::vector<std::byte> large = Pattern(1 << 20);
  for (const char c : std::string("hello")) large.push_back(static_cast<std::byte>(c));
  EXPECT_EQ(SumPayload(large), (PayloadSum{0x350a53f000185952, 0x1d13f8a22cc5d47a}));
}

TEST(SumPayload, DoesNotDependOnAlignment) {
  const std::vector<std::byte> pattern = Pattern(5000);
  std::vector<std::byte> shifted(5000 + 64);
  for (size_t offset = 0; offset < 64; ++offset) {
    std::memcpy(shifted.data() + offset, pattern.data(), pattern.size());
    EXPECT_EQ(SumPayload(std::span(shifted).subspan(offset, 5000)), SumPayload(pattern));
  }
}

TEST(Seal, HasTheKnownAnswer) {
  EXPECT_EQ(Seal(KnownIdentity(4096), SumPayload(Pattern(4096))), 0xd0b34da5a8bdc2ebu);
}

TEST(Seal, EveryFieldChangesIt) {
  const BlockIdentity identity = KnownIdentity(4096);
  const PayloadSum sum{1, 2};
  std::set<uint64_t> seals = {Seal(identity, sum)};
  const std::vector<std::function<void(BlockIdentity&, PayloadSum&)>> changes = {
      [](BlockIdentity& i, PayloadSum&) { i.key.hi ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { i.key.lo ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { std::swap(i.key.hi, i.key.lo); },
      [](BlockIdentity& i, PayloadSum&) { i.space.bytes[0] ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { i.space.bytes[31] ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { i.length ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { i.generation ^= 1; },
      [](BlockIdentity& i, PayloadSum&) { std::swap(i.length, i.generation); },
      [](BlockIdentity&, PayloadSum& s) { s.hi ^= 1; },
      [](BlockIdentity&, PayloadSum& s) { s.lo ^= 1; },
      [](BlockIdentity&, PayloadSum& s) { std::swap(s.hi, s.lo); },
  };
  for (const auto& change : changes) {
    BlockIdentity changed = identity;
    PayloadSum changed_sum = sum;
    change(changed, changed_sum);
    seals.insert(Seal(changed, changed_sum));
  }
  EXPECT_EQ(seals.size(), changes.size() + 1);
}

TEST(VerifyBlock, PassesTheBlockItself) {
  for (const size_t size : kBoundarySizes) {
    const std::vector<std::byte> payload = Pattern(size);
    const BlockIdentity identity = KnownIdentity(size);
    const PayloadSum sum = SumPayload(payload);
    EXPECT_TRUE(VerifyBlock(identity, sum, Seal(identity, sum), payload).ok()) << size;
  }
}

TEST(VerifyBlock, CatchesAFlippedBitAnywhere) {
  for (const size_t size : kBoundarySizes) {
    std::vector<std::byte> payload = Pattern(size);
    const BlockIdentity identity = KnownIdentity(size);
    const PayloadSum sum = SumPayload(payload);
    const uint64_t seal = Seal(identity, sum);
    std::set<size_t> places;  // First, last and about 97 between.
    for (size_t i = 0; i < size; i += size / 97 + 1) places.insert(i);
    if (size > 0) places.insert(size - 1);
    for (const size_t i : places) {
      payload[i] ^= std::byte{0x10};
      const absl::Status status = VerifyBlock(identity, sum, seal, payload);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i << " of " << size;
      payload[i] ^= std::byte{0x10};
    }
    EXPECT_TRUE(VerifyBlock(identity, sum, seal, payload).ok());
  }
}

void ExpectDataLoss(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  EXPECT_THAT(std::string(status.message()), HasSubstr(KnownIdentity(0).key.ToHex()));
}

TEST(VerifyBlock, NamesWhatDiffersAndTheKey) {
  std::vector<std::byte> payload = Pattern(4096);
  const BlockIdentity identity = KnownIdentity(4096);
  const PayloadSum sum = SumPayload(payload);
  const uint64_t seal = Seal(identity, sum);
  ExpectDataLoss(VerifyBlock(identity, sum, seal, std::span(payload).first(4095)),
                 "has 4095 bytes, expected 4096");
  ExpectDataLoss(VerifyBlock(identity, sum, seal ^ 1, payload), "seal ");
  payload[0] ^= std::byte{1};
  ExpectDataLoss(VerifyBlock(identity, sum, seal, payload), "payload sum ");
}

// A whole, undamaged block lies where another block belongs.
TEST(VerifyBlock, CatchesAnotherBlockKeySpaceOrGeneration) {
  const std::vector<std::byte> payload = Pattern(4096);
  const PayloadSum sum = SumPayload(payload);
  const uint64_t seal = Seal(KnownIdentity(4096), sum);
  BlockIdentity other_key = KnownIdentity(4096);
  other_key.key.lo ^= 1;
  EXPECT_EQ(VerifyBlock(other_key, sum, seal, payload).code(), absl::StatusCode::kDataLoss);
  BlockIdentity other_space = KnownIdentity(4096);
  other_space.space.bytes[5] ^= 1;
  EXPECT_EQ(VerifyBlock(other_space, sum, seal, payload).code(), absl::StatusCode::kDataLoss);
  BlockIdentity older = KnownIdentity(4096);
  older.generation -= 1;
  EXPECT_EQ(VerifyBlock(older, sum, seal, payload).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace kvtier
