#include "tier_disk/cipher/aes_gcm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"

namespace kvtier {
namespace {

using Bytes = std::vector<std::byte>;

template <typename Octet>
std::vector<Octet> FromHex(absl::string_view hex) {
  const std::string text = absl::HexStringToBytes(hex);
  std::vector<Octet> bytes(text.size());
  std::copy_n(reinterpret_cast<const Octet*>(text.data()), text.size(), bytes.begin());
  return bytes;
}

template <typename Container>
std::string ToHex(const Container& bytes) {
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

struct Vector {
  const char* key;
  const char* nonce;
  const char* plain;
  const char* associated;
  const char* sealed;
  const char* tag;
};

// The first four are from NIST CAVP, gcmEncryptExtIV256.rsp, count 0 of (plain bits, AAD bits) (0,
// 0), (128, 0), (0, 128) and (128, 128). The others are test cases 13 to 16 of "The Galois/Counter
// Mode of Operation", as submitted to NIST.
constexpr Vector kVectors[] = {
    {"b52c505a37d78eda5dd34f20c22540ea1b58963cf8e5bf8ffa85f9f2492505b4", "516c33929df5a3284ff463d7",
     "", "", "", "bdc1ac884d332457a1d2664f168c76f0"},
    {"31bdadd96698c204aa9ce1448ea94ae1fb4a9a0b3c9d773b51bb1822666b8f22", "0d18e06c7c725ac9e362e1ce",
     "2db5168e932556f8089a0622981d017d", "", "fa4362189661d163fcd6a56d8bf0405a",
     "d636ac1bbedd5cc3ee727dc2ab4a9489"},
    {"78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223", "d79cf22d504cc793c3fb6c8a",
     "", "b96baa8c1c75a671bfb2d08d06be5f36", "", "3e5d486aa2e30b22e040b85723a06e76"},
    {"92e11dcdaa866f5ce790fd24501f92509aacf4cb8b1339d50c9c1240935dd08b", "ac93a1a6145299bde902f21a",
     "2d71bcfa914e4ac045b2aa60955fad24", "1e0889016f67601c8ebea4943bc23ad6",
     "8995ae2e6df3dbf96fac7b7137bae67f", "eca5aa77d51d4a0a14d9c51e1da474ab"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {"0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000",
     "00000000000000000000000000000000", "", "cea7403d4d606b6e074ec5d3baf39d18",
     "d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
     "76fc6ece0f4e1768cddf8853bb2d551b"},
};

SecretKey KeyOf(absl::string_view hex) {
  const auto bytes = FromHex<uint8_t>(hex);
  return SecretKey(std::span<const uint8_t, SecretKey::kBytes>(bytes));
}

GcmNonce NonceOf(absl::string_view hex) {
  GcmNonce nonce;
  const auto bytes = FromHex<uint8_t>(hex);
  std::copy(bytes.begin(), bytes.end(), nonce.bytes.begin());
  return nonce;
}

TEST(AesGcmTest, GivesTheKnownAnswers) {
  for (const Vector& vector : kVectors) {
    const SecretKey key = KeyOf(vector.key);
    const auto associated = FromHex<uint8_t>(vector.associated);
    const GcmInput input{.key = key, .nonce = NonceOf(vector.nonce), .associated = associated};
    const auto plain = FromHex<std::byte>(vector.plain);
    Bytes out(plain.size());
    const GcmTag tag = SealGcm(input, plain, out);
    EXPECT_EQ(ToHex(out), vector.sealed);
    EXPECT_EQ(ToHex(tag.bytes), vector.tag);
    ASSERT_TRUE(OpenGcm(input, out, tag, out));
    EXPECT_EQ(out, plain);
  }
}

// Fixture with one sealed message and its input, to be damaged one bit at a time.
class SpoiltMessageTest : public ::testing::Test {
 protected:
  SpoiltMessageTest() : sealed_(64), out_(64) { tag_ = SealGcm(Input(), Bytes(64), sealed_); }
  GcmInput Input() const { return {.key = key_, .nonce = nonce_, .associated = associated_}; }
  // Flips each bit of `bytes` in turn; returns for how many the message still opened.
  int OpenedWithAnyBitOf(std::span<uint8_t> bytes) {
    int opened = 0;
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      std::fill(out_.begin(), out_.end(), std::byte{0xee});
      opened += OpenGcm(Input(), sealed_, tag_, out_) ? 1 : 0;
      EXPECT_EQ(out_, Bytes(64)) << "not wiped at bit " << bit;
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    }
    return opened;
  }

  SecretKey key_ = KeyOf(kVectors[0].key);
  GcmNonce nonce_ = NonceOf(kVectors[0].nonce);
  std::vector<uint8_t> associated_ = std::vector<uint8_t>(37, 3);
  Bytes sealed_;
  Bytes out_;
  GcmTag tag_;
};

TEST_F(SpoiltMessageTest, OpensWhileNothingIsSpoilt) {
  EXPECT_TRUE(OpenGcm(Input(), sealed_, tag_, out_));
}

TEST_F(SpoiltMessageTest, EveryBitOfTheTagCounts) { EXPECT_EQ(OpenedWithAnyBitOf(tag_.bytes), 0); }

TEST_F(SpoiltMessageTest, EveryBitOfTheAssociatedDataCounts) {
  EXPECT_EQ(OpenedWithAnyBitOf(associated_), 0);
}

TEST_F(SpoiltMessageTest, EveryBitOfTheSealedBytesCounts) {
  EXPECT_EQ(OpenedWithAnyBitOf({reinterpret_cast<uint8_t*>(sealed_.data()), sealed_.size()}), 0);
}

TEST_F(SpoiltMessageTest, EveryBitOfTheNonceCounts) {
  EXPECT_EQ(OpenedWithAnyBitOf(nonce_.bytes), 0);
}

TEST_F(SpoiltMessageTest, EveryBitOfTheKeyCounts) {
  EXPECT_EQ(OpenedWithAnyBitOf(key_.bytes()), 0);
}

}  // namespace
}  // namespace kvtier
