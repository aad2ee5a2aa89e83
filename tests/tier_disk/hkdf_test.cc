#include "tier_disk/cipher/hkdf.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

namespace kvtier {
namespace {

std::vector<uint8_t> FromHex(absl::string_view hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  return {bytes.begin(), bytes.end()};
}

std::string ToHex(std::span<const uint8_t> bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

struct Vector {
  std::string material;
  std::string salt;
  std::string info;
  std::string extracted;
  std::string expanded;
};

// Returns the bytes first, first + 1, ... as hexadecimal digits.
std::string Counting(int first, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(first + i));
  return absl::BytesToHexString(bytes);
}

std::string Repeated(absl::string_view digits, int count) {
  std::string hex;
  for (int i = 0; i < count; ++i) hex += std::string(digits);
  return hex;
}

// Returns RFC 5869, appendix A.1 to A.3: all of its cases for SHA-256.
std::vector<Vector> RfcVectors() {
  return {{Repeated("0b", 22), Counting(0, 13), Counting(0xf0, 10),
           "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
           "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
           "34007208d5b887185865"},
          {Counting(0x00, 80), Counting(0x60, 80), Counting(0xb0, 80),
           "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
           "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
           "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
           "cc30c58179ec3e87c14c01d5c1f3434f1d87"},
          {Repeated("0b", 22), "", "",
           "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
           "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
           "9d201395faa4b61a96c8"}};
}

TEST(HkdfTest, GivesTheAnswersOfRfc5869) {
  for (const Vector& vector : RfcVectors()) {
    const SecretKey key = HkdfExtract(FromHex(vector.salt), FromHex(vector.material));
    EXPECT_EQ(ToHex(key.bytes()), vector.extracted);
    std::vector<uint8_t> out(vector.expanded.size() / 2);
    HkdfExpand(key, FromHex(vector.info), out);
    EXPECT_EQ(ToHex(out), vector.expanded);
  }
}

TEST(HkdfTest, TheLongestOutputBeginsLikeAShortOne) {
  const SecretKey key = HkdfExtract({}, std::vector<uint8_t>(32, 1));
  std::vector<uint8_t> longest(kMaxHkdfBytes);
  std::vector<uint8_t> shortest(1);
  HkdfExpand(key, {}, longest);
  HkdfExpand(key, {}, shortest);
  EXPECT_EQ(longest[0], shortest[0]);
}

TEST(SecretKeyTest, IsWipedWhenItDies) {
  alignas(SecretKey) std::array<uint8_t, sizeof(SecretKey)> memory{};
  const std::vector<uint8_t> bytes(SecretKey::kBytes, 0xa5);
  auto* const key =
      new (memory.data()) SecretKey(std::span<const uint8_t, SecretKey::kBytes>(bytes));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0xa5), SecretKey::kBytes);
  key->~SecretKey();
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 0xa5), 0);
}

TEST(SecretKeyTest, RandomBytesAreDrawnAnewEachTime) {
  std::array<uint8_t, 16> first{};
  std::array<uint8_t, 16> second{};
  FillRandom(first);
  FillRandom(second);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace kvtier
