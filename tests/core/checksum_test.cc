#include "core/checksum.h"

#include <cstring>
#include <set>
#include <span>
#include <string>
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

constexpr BlockKey kKey = {0x0123456789abcdef, 0xfedcba9876543210};

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

TEST(VerifyPayload, PassesTheBlockItself) {
  for (const size_t size : kBoundarySizes) {
    const std::vector<std::byte> payload = Pattern(size);
    EXPECT_TRUE(VerifyPayload(kKey, size, SumPayload(payload), payload).ok()) << size;
  }
}

TEST(VerifyPayload, CatchesAFlippedBitAnywhere) {
  for (const size_t size : kBoundarySizes) {
    std::vector<std::byte> payload = Pattern(size);
    const PayloadSum sum = SumPayload(payload);
    std::set<size_t> places;  // First, last and about 97 between.
    for (size_t i = 0; i < size; i += size / 97 + 1) places.insert(i);
    if (size > 0) places.insert(size - 1);
    for (const size_t i : places) {
      payload[i] ^= std::byte{0x10};
      const absl::Status status = VerifyPayload(kKey, size, sum, payload);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << "byte " << i << " of " << size;
      payload[i] ^= std::byte{0x10};
    }
    EXPECT_TRUE(VerifyPayload(kKey, size, sum, payload).ok());
  }
}

void ExpectDataLoss(const absl::Status& status, const std::string& what) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(what));
  EXPECT_THAT(std::string(status.message()), HasSubstr(kKey.ToHex()));
}

TEST(VerifyPayload, NamesWhatDiffersAndTheKey) {
  std::vector<std::byte> payload = Pattern(4096);
  const PayloadSum sum = SumPayload(payload);
  ExpectDataLoss(VerifyPayload(kKey, 4096, sum, std::span(payload).first(4095)),
                 "has 4095 bytes, expected 4096");
  payload[0] ^= std::byte{1};
  ExpectDataLoss(VerifyPayload(kKey, 4096, sum, payload), "payload sum ");
}

}  // namespace
}  // namespace kvtier
