#include "tier_disk/cipher/record_cipher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/tier_disk/disk_blocks.h"

namespace kvtier {
namespace {

using testing::DiskPayload;
using testing::HoldsDiskBlock;
using testing::MakeDiskBlock;

// Makes a key or an opening that differs for each byte.
SecretKey KeyOf(uint8_t byte) {
  SecretKey key;
  std::fill(key.bytes().begin(), key.bytes().end(), byte);
  return key;
}

OpeningId OpeningOf(uint8_t byte) {
  OpeningId opening;
  opening.bytes.fill(byte);
  return opening;
}

RecordCipher CipherOf(uint8_t key, uint8_t opening = 1) {
  return {KeyOf(key), KeyId{key}, OpeningOf(opening)};
}

RecordIdentity IdentityOf(uint64_t number, uint64_t length) {
  const BlockMeta block = MakeDiskBlock(number, length);
  return {.key = block.key,
          .space = block.space,
          .length = length,
          .place = {.segment = SegmentId{5}, .generation = 77, .offset = 3 * kBlockAlignment}};
}

// Block `number` as its tenant's cipher sealed it.
struct SealedBlock {
  SealedBlock(const RecordCipher& cipher, uint64_t number, uint64_t length)
      : payload_bytes(length),
        identity(IdentityOf(number, length)),
        slot(DiskPayload(number, length)) {
    const auto sealed = cipher.Seal(identity, slot.bytes().first(length), slot.bytes());
    EXPECT_TRUE(sealed.ok()) << sealed.status();
    if (sealed.ok()) proof = *sealed;
  }
  std::span<std::byte> bytes() { return slot.bytes().first(payload_bytes); }
  absl::Status OpenWith(const RecordCipher& cipher, std::span<std::byte> out) {
    return cipher.Open(identity, proof, bytes(), out);
  }

  const uint64_t payload_bytes;
  RecordIdentity identity;  // Damaged by tests.
  PageBuffer slot;
  CipherProof proof;
};

TEST(RecordCipherTest, BlocksOfAnyLengthComeBack) {
  const RecordCipher cipher = CipherOf(1);
  for (const uint64_t length : {1, 15, 16, 17, 4095, 4096, 4097, 65536, 65537, 8 << 20}) {
    PageBuffer payload = DiskPayload(1, length);
    PageBuffer sealed(length);
    PageBuffer opened(length);
    const RecordIdentity identity = IdentityOf(1, length);
    const auto proof = cipher.Seal(identity, payload.bytes().first(length), sealed.bytes());
    ASSERT_TRUE(proof.ok()) << proof.status();
    EXPECT_TRUE(HoldsDiskBlock(1, length, &payload)) << "a seal to a buffer changed its source";
    EXPECT_EQ(
        cipher.Open(identity, *proof, sealed.bytes().first(length), opened.bytes().first(length)),
        absl::OkStatus());
    EXPECT_TRUE(HoldsDiskBlock(1, length, &opened)) << length;
  }
}

TEST(RecordCipherTest, SealsAndOpensInPlace) {
  const RecordCipher cipher = CipherOf(1);
  for (const uint64_t length : {1, 4096, 5000, 2 << 20}) {
    SealedBlock block(cipher, 1, length);
    EXPECT_FALSE(HoldsDiskBlock(1, length, &block.slot)) << "sealed in clear";
    EXPECT_EQ(block.OpenWith(cipher, block.bytes()), absl::OkStatus());
    EXPECT_TRUE(HoldsDiskBlock(1, length, &block.slot));
  }
}

TEST(RecordCipherTest, WhatLiesBehindThePayloadIsNotWritten) {
  const RecordCipher cipher = CipherOf(1);
  PageBuffer slot = DiskPayload(1, 5000);
  std::fill(slot.bytes().begin() + 5000, slot.bytes().end(), std::byte{0xaa});
  ASSERT_TRUE(cipher.Seal(IdentityOf(1, 5000), slot.bytes().first(5000), slot.bytes()).ok());
  EXPECT_TRUE(std::all_of(slot.bytes().begin() + 5000, slot.bytes().end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

// The expected bytes were computed with another implementation (pycryptodome, and hmac of Python's
// library): existing disks must open as long as the tags say v1.
TEST(RecordCipherTest, SealsAsItAlwaysDid) {
  const RecordCipher cipher = CipherOf(1, 2);
  RecordIdentity identity{.key = {.hi = 0x0102030405060708, .lo = 0x090a0b0c0d0e0f10},
                          .length = 16,
                          .place = {.segment = SegmentId{3}, .generation = 4, .offset = 8192}};
  identity.space.bytes.fill(6);
  PageBuffer slot(16);
  std::fill_n(slot.bytes().begin(), 16, std::byte{7});
  const auto proof = cipher.Seal(identity, slot.bytes().first(16), slot.bytes());
  ASSERT_TRUE(proof.ok()) << proof.status();
  const auto hex = [](const void* bytes) {
    return absl::BytesToHexString({static_cast<const char*>(bytes), 16});
  };
  EXPECT_EQ(hex(slot.bytes().data()), "d2ea84dd563696853b5b1790000c550f");
  EXPECT_EQ(hex(proof->tag.bytes.data()), "6ab1f4276e51baf8240a7e0c93459bbc");
}

TEST(RecordCipherTest, EveryBitOfTheTagAndTheOpeningCounts) {
  const RecordCipher cipher = CipherOf(1);
  SealedBlock block(cipher, 1, 4096);
  PageBuffer out(4096);
  for (size_t bit = 0; bit < 128; ++bit) {
    for (auto* field : {&block.proof.tag.bytes, &block.proof.opening.bytes}) {
      (*field)[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      EXPECT_TRUE(absl::IsDataLoss(block.OpenWith(cipher, out.bytes()))) << bit;
      (*field)[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    }
  }
  EXPECT_EQ(block.OpenWith(cipher, out.bytes()), absl::OkStatus());
}

TEST(RecordCipherTest, EveryBitOfTheIdentityCounts) {
  const RecordCipher cipher = CipherOf(1);
  SealedBlock block(cipher, 1, 4096);
  PageBuffer out(4096);
  const RecordIdentity good = block.identity;
  const auto refused = [&](const std::function<void(RecordIdentity*)>& spoil) {
    block.identity = good;
    spoil(&block.identity);
    return absl::IsDataLoss(block.OpenWith(cipher, out.bytes()));
  };
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t flip = uint64_t{1} << bit;
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->key.hi ^= flip; })) << bit;
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->key.lo ^= flip; })) << bit;
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->length ^= flip; })) << bit;
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->place.generation ^= flip; })) << bit;
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->place.offset ^= flip; })) << bit;
    const uint32_t other = 5U ^ static_cast<uint32_t>(uint64_t{1} << (bit % 32));
    EXPECT_TRUE(refused([&](RecordIdentity* id) { id->place.segment = SegmentId{other}; })) << bit;
  }
  for (int bit = 0; bit < 256; ++bit) {
    EXPECT_TRUE(refused([&](RecordIdentity* id) {
      id->space.bytes[static_cast<size_t>(bit / 8)] ^= static_cast<uint8_t>(1 << (bit % 8));
    })) << bit;
  }
}

TEST(RecordCipherTest, EveryBitOfASmallPayloadCounts) {
  const RecordCipher cipher = CipherOf(1);
  SealedBlock block(cipher, 1, 100);
  PageBuffer out(100);
  for (size_t bit = 0; bit < 800; ++bit) {
    block.bytes()[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(block.OpenWith(cipher, out.bytes().first(100)))) << bit;
    block.bytes()[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(RecordCipherTest, BitsAllOverALargePayloadCount) {
  const RecordCipher cipher = CipherOf(1);
  constexpr uint64_t kLength = 2 << 20;
  // A prime, so that every bit of a byte is hit and no page twice.
  constexpr uint64_t kStride = 524287;
  SealedBlock block(cipher, 1, kLength);
  PageBuffer out(kLength);
  for (uint64_t bit = 0; bit < kLength * 8; bit += kStride) {
    block.bytes()[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(block.OpenWith(cipher, out.bytes()))) << bit;
    block.bytes()[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST(RecordCipherTest, BytesThatProveNothingAreWiped) {
  const RecordCipher cipher = CipherOf(1);
  SealedBlock block(cipher, 1, 4096);
  block.proof.tag.bytes[0] ^= 1;
  ASSERT_TRUE(absl::IsDataLoss(block.OpenWith(cipher, block.bytes())));
  EXPECT_TRUE(std::all_of(block.bytes().begin(), block.bytes().end(),
                          [](std::byte byte) { return byte == std::byte{0}; }));
}

// The id names the key, so a wrong key is told from damage before a byte is read.
TEST(RecordCipherTest, ARecordUnderAnotherKeyIdIsNotTouched) {
  SealedBlock block(CipherOf(1), 1, 4096);
  const std::vector<std::byte> before(block.bytes().begin(), block.bytes().end());
  const absl::Status opened = block.OpenWith(CipherOf(2), block.bytes());
  EXPECT_TRUE(absl::IsFailedPrecondition(opened)) << opened;
  EXPECT_TRUE(std::equal(before.begin(), before.end(), block.bytes().begin()));
}

TEST(RecordCipherTest, AnotherKeyOfTheSameIdOpensNothing) {
  SealedBlock block(CipherOf(1), 1, 4096);
  PageBuffer out(4096);
  const RecordCipher other(KeyOf(2), KeyId{1}, OpeningOf(1));
  EXPECT_TRUE(absl::IsDataLoss(block.OpenWith(other, out.bytes())));
}

TEST(RecordCipherTest, ALaterOpeningReadsTheRecordsOfAnEarlierOne) {
  SealedBlock block(CipherOf(1, 1), 1, 4096);
  PageBuffer out(4096);
  EXPECT_EQ(block.OpenWith(CipherOf(1, 2), out.bytes()), absl::OkStatus());
  EXPECT_TRUE(HoldsDiskBlock(1, 4096, &out));
}

// If generations start over, after a power cut or a lost manifest, the key is another one.
TEST(RecordCipherTest, OneBlockAtOnePlaceIsSealedDifferentlyInEachOpening) {
  SealedBlock first(CipherOf(1, 1), 1, 4096);
  SealedBlock second(CipherOf(1, 2), 1, 4096);
  EXPECT_FALSE(std::equal(first.bytes().begin(), first.bytes().end(), second.bytes().begin()));
  PageBuffer out(4096);
  second.proof.opening = first.proof.opening;
  EXPECT_TRUE(absl::IsDataLoss(second.OpenWith(CipherOf(1), out.bytes())));
}

TEST(RecordCipherTest, PlacesWithoutANonceAreRefused) {
  const RecordCipher cipher = CipherOf(1);
  SealedBlock block(cipher, 1, 4096);
  PageBuffer out(4096);
  const std::vector<RecordPlace> places = {
      {.segment = SegmentId{65536}},
      {.generation = kMaxCipherGeneration + 1},
      {.offset = 1},
      {.offset = kBlockAlignment << 32},
  };
  for (const RecordPlace& place : places) {
    EXPECT_EQ(RecordNonce(place), std::nullopt);
    block.identity.place = place;
    const auto sealed = cipher.Seal(block.identity, block.bytes(), out.bytes());
    EXPECT_TRUE(absl::IsFailedPrecondition(sealed.status())) << sealed.status();
    EXPECT_TRUE(absl::IsDataLoss(block.OpenWith(cipher, out.bytes())));
  }
}

TEST(RecordNonceTest, TheOutermostPlacesHaveNonces) {
  const auto nonce = RecordNonce({.segment = SegmentId{65535},
                                  .generation = kMaxCipherGeneration,
                                  .offset = ((uint64_t{1} << 32) - 1) * kBlockAlignment});
  ASSERT_TRUE(nonce.has_value());
  for (const uint8_t byte : nonce->bytes) EXPECT_EQ(byte, 0xff);
}

TEST(RecordNonceTest, SaysSegmentGenerationAndPage) {
  const auto nonce = RecordNonce(
      {.segment = SegmentId{0x0102}, .generation = 0x030405060708, .offset = 0x090a0b0c000});
  ASSERT_TRUE(nonce.has_value());
  EXPECT_EQ(absl::BytesToHexString(
                {reinterpret_cast<const char*>(nonce->bytes.data()), nonce->bytes.size()}),
            "0102030405060708090a0b0c");
}

}  // namespace
}  // namespace kvtier
