#include "tier_disk/directory/superblock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "tests/testing/patience.h"
#include "tests/testing/sim_random.h"
#include "tests/testing/test_seed.h"
#include "tier_disk/directory/segment_files.h"

namespace kvtier {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using File = std::array<std::byte, kSuperblockFileBytes>;

constexpr size_t kSectorBytes = 512;
// Offsets of the fields; the header's static_asserts say the same.
constexpr size_t kMagicAt = 0;
constexpr size_t kVersionAt = 8;
constexpr size_t kAlignmentAt = 12;
constexpr size_t kSequenceAt = 16;
constexpr size_t kDiskAt = 24;
constexpr size_t kIncarnationAt = 40;
constexpr size_t kSegmentBytesAt = 56;
constexpr size_t kSegmentCountAt = 64;
constexpr size_t kIncompatibleAt = 80;
constexpr size_t kCompatibleAt = 88;
constexpr size_t kKeyCheckAt = 96;
constexpr size_t kPaddingAt = 104;
constexpr size_t kSumAt = 4080;

Superblock SomeSuperblock(uint64_t sequence = 1) {
  Superblock superblock{.sequence = sequence,
                        .geometry = {.segment_bytes = uint64_t{256} << 20, .segment_count = 64},
                        .created = absl::FromUnixMicros(1'790'000'000'123'456)};
  superblock.identity.disk.bytes.fill(1);
  superblock.identity.incarnation.bytes.fill(2);
  return superblock;
}

std::span<std::byte, kSuperblockBytes> PageOf(File* file, SuperblockCopy copy) {
  return std::span<std::byte, kSuperblockBytes>(file->data() + OffsetOf(copy), kSuperblockBytes);
}

// Makes a file of two copies, as a power cut in the middle of a change leaves it.
File FileOf(const Superblock& a, const Superblock& b) {
  File file;
  EncodeSuperblock(a, PageOf(&file, SuperblockCopy::kA));
  EncodeSuperblock(b, PageOf(&file, SuperblockCopy::kB));
  return file;
}

// Writes a field and corrects the checksum, as another program could have written it.
template <typename T>
void Rewrite(File* file, SuperblockCopy copy, size_t at, T value) {
  const std::span<std::byte, kSuperblockBytes> page = PageOf(file, copy);
  std::memcpy(page.data() + at, &value, sizeof(value));
  const PayloadSum sum = SumPayload(page.first(kSumAt));
  std::memcpy(page.data() + kSumAt, &sum.hi, 8);
  std::memcpy(page.data() + kSumAt + 8, &sum.lo, 8);
}

// Returns the result of decoding after a Rewrite() of both copies.
template <typename T>
absl::StatusOr<DecodedSuperblock> DecodedWith(size_t at, T value) {
  File file = EncodeSuperblockFile(SomeSuperblock());
  Rewrite(&file, SuperblockCopy::kA, at, value);
  Rewrite(&file, SuperblockCopy::kB, at, value);
  return DecodeSuperblock(file);
}

TEST(SuperblockTest, ComesBackWhole) {
  Superblock superblock = SomeSuperblock(7);
  superblock.key_check = 0x0123456789abcdef;
  superblock.compatible = 0xfedcba9876543210;  // All of these bits are unknown here, and kept.
  const auto decoded = DecodeSuperblock(EncodeSuperblockFile(superblock));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->superblock, superblock);
  EXPECT_FALSE(decoded->copies_differ);
}

TEST(SuperblockTest, WithoutEncryptionThereIsNoKeyCheck) {
  const auto decoded = DecodeSuperblock(EncodeSuperblockFile(SomeSuperblock()));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->superblock->key_check, std::nullopt);
}

TEST(SuperblockTest, AKeyCheckOfZeroIsOneToo) {
  Superblock superblock = SomeSuperblock();
  superblock.key_check = 0;
  EXPECT_EQ(DecodeSuperblock(EncodeSuperblockFile(superblock))->superblock, superblock);
}

TEST(SuperblockTest, TheNewestCopyCounts) {
  const auto b_newer = DecodeSuperblock(FileOf(SomeSuperblock(8), SomeSuperblock(9)));
  EXPECT_EQ(b_newer->superblock->sequence, 9);
  EXPECT_EQ(b_newer->write_first, SuperblockCopy::kA);
  EXPECT_TRUE(b_newer->copies_differ);
  const auto a_newer = DecodeSuperblock(FileOf(SomeSuperblock(10), SomeSuperblock(9)));
  EXPECT_EQ(a_newer->superblock->sequence, 10);
  EXPECT_EQ(a_newer->write_first, SuperblockCopy::kB);
  EXPECT_TRUE(a_newer->copies_differ);
}

TEST(SuperblockTest, EveryBitOfEitherCopyCountsAndTheOtherOneServes) {
  constexpr size_t kStep = testing::kSanitized ? 7 : 1;  // Bits.
  for (const SuperblockCopy copy : {SuperblockCopy::kA, SuperblockCopy::kB}) {
    File file = EncodeSuperblockFile(SomeSuperblock());
    for (size_t bit = 0; bit < kSuperblockBytes * 8; bit += kStep) {
      std::byte& byte = PageOf(&file, copy)[bit / 8];
      byte ^= std::byte{1} << (bit % 8);
      const auto decoded = DecodeSuperblock(file);
      ASSERT_TRUE(decoded.ok()) << bit << ": " << decoded.status();
      ASSERT_EQ(decoded->superblock, SomeSuperblock());
      ASSERT_EQ(decoded->write_first, copy) << "the damaged one is to be written";
      ASSERT_TRUE(decoded->copies_differ);
      byte ^= std::byte{1} << (bit % 8);
    }
  }
}

TEST(SuperblockTest, OneBitInEachCopyIsDataLoss) {
  for (size_t bit = 0; bit < kSuperblockBytes * 8; bit += 61) {
    File file = EncodeSuperblockFile(SomeSuperblock());
    PageOf(&file, SuperblockCopy::kA)[bit / 8] ^= std::byte{1} << (bit % 8);
    PageOf(&file, SuperblockCopy::kB)[(bit + 9) / 8 % kSuperblockBytes] ^= std::byte{1};
    ASSERT_TRUE(absl::IsDataLoss(DecodeSuperblock(file).status())) << bit;
  }
}

// A power cut ends a change after any number of sectors, from either end.
TEST(SuperblockTest, ATornChangeLeavesTheOldOrTheNew) {
  const File before = EncodeSuperblockFile(SomeSuperblock(1));
  const File after = EncodeSuperblockFile(SomeSuperblock(2));
  for (size_t sectors = 0; sectors <= kSuperblockBytes / kSectorBytes; ++sectors) {
    const size_t bytes = sectors * kSectorBytes;
    File torn = before;  // The first copy is being written.
    std::copy_n(after.begin(), bytes, torn.begin());
    auto decoded = DecodeSuperblock(torn);
    ASSERT_TRUE(decoded.ok()) << bytes << ": " << decoded.status();
    EXPECT_EQ(decoded->superblock->sequence, bytes == kSuperblockBytes ? 2 : 1) << bytes;
    torn = after;  // The first is written; the second is being written, its end first.
    std::copy_n(before.begin() + kSuperblockBytes, kSuperblockBytes - bytes,
                torn.begin() + kSuperblockBytes);
    decoded = DecodeSuperblock(torn);
    ASSERT_TRUE(decoded.ok()) << bytes << ": " << decoded.status();
    EXPECT_EQ(decoded->superblock->sequence, 2) << bytes;
  }
}

TEST(SuperblockTest, AFileThatEndsEarlyHasTheCopiesThatAreWhole) {
  const File file = EncodeSuperblockFile(SomeSuperblock());
  const std::span<const std::byte> bytes(file);
  for (size_t size = 1; size < kSuperblockFileBytes; size += 511) {
    const auto decoded = DecodeSuperblock(bytes.first(size));
    EXPECT_EQ(decoded.status().code(),
              size < kSuperblockBytes ? absl::StatusCode::kDataLoss : absl::StatusCode::kOk)
        << size;
  }
  EXPECT_TRUE(DecodeSuperblock(bytes.first(kSuperblockBytes))->copies_differ);
}

TEST(SuperblockTest, ADiskWithoutAFileHasNone) {
  const auto decoded = DecodeSuperblock({});
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->superblock, std::nullopt);
}

// Superblocks of disks before the first release began with "kvtsuper".
TEST(SuperblockTest, APageOfAnotherMagicIsNeverReadAndBothAreNamed) {
  const absl::Status refused = DecodedWith(kMagicAt, uint64_t{0x726570757374766b}).status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("0x726570757374766b"), HasSubstr("0x736b73696474766b")));
}

TEST(SuperblockTest, ANewerLayoutIsRefusedWithBothVersionsNamed) {
  const absl::Status refused = DecodedWith(kVersionAt, uint32_t{3}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("version 3"), HasSubstr("version 1")));
}

// The machine went down during an upgrade, and the old program runs after it.
TEST(SuperblockTest, ANewerLayoutInTheNewestCopyIsEnoughToRefuse) {
  File file = FileOf(SomeSuperblock(9), SomeSuperblock(8));
  Rewrite(&file, SuperblockCopy::kA, kVersionAt, uint32_t{3});
  EXPECT_TRUE(absl::IsFailedPrecondition(DecodeSuperblock(file).status()));
}

TEST(SuperblockTest, UnknownIncompatibleFeaturesAreRefusedByName) {
  for (int bit = 1; bit < 64; ++bit) {
    EXPECT_TRUE(
        absl::IsFailedPrecondition(DecodedWith(kIncompatibleAt, uint64_t{1} << bit).status()))
        << bit;
  }
  const absl::Status refused = DecodedWith(kIncompatibleAt, uint64_t{0x81}).status();
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("0x80"), HasSubstr("0x1")));
}

TEST(SuperblockTest, UnknownCompatibleFeaturesAreKept) {
  for (int bit = 0; bit < 64; ++bit) {
    const auto decoded = DecodedWith(kCompatibleAt, uint64_t{1} << bit);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    File again = EncodeSuperblockFile(*decoded->superblock);
    EXPECT_EQ(DecodeSuperblock(again)->superblock->compatible, uint64_t{1} << bit);
  }
}

TEST(SuperblockTest, AnotherAlignmentIsRefusedWithBothNamed) {
  const absl::Status refused = DecodedWith(kAlignmentAt, uint32_t{16384}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), AllOf(HasSubstr("16384"), HasSubstr("4096")));
}

TEST(SuperblockTest, AProvenPageThatContradictsItselfIsDataLoss) {
  const std::array<uint64_t, 2> zero_id{};
  const std::vector<absl::Status> statuses = {
      DecodedWith(kVersionAt, uint32_t{0}).status(),
      DecodedWith(kSequenceAt, uint64_t{0}).status(),
      DecodedWith(kDiskAt, zero_id).status(),
      DecodedWith(kIncarnationAt, zero_id).status(),
      DecodedWith(kSegmentBytesAt, uint64_t{0}).status(),
      DecodedWith(kSegmentBytesAt, uint64_t{4097}).status(),
      DecodedWith(kSegmentCountAt, uint32_t{1}).status(),
      DecodedWith(kSegmentCountAt, kMaxSegments + 1).status(),
      DecodedWith(kSegmentCountAt + 4, uint32_t{1}).status(),
      DecodedWith(kKeyCheckAt, uint64_t{1}).status(),
      DecodedWith(kPaddingAt, uint8_t{1}).status(),
      DecodedWith(kSumAt - 1, uint8_t{1}).status(),
  };
  for (const absl::Status& status : statuses) EXPECT_TRUE(absl::IsDataLoss(status)) << status;
}

TEST(SuperblockTest, TwoCopiesOfOneSequenceThatDifferAreDataLoss) {
  Superblock other = SomeSuperblock(5);
  other.identity.incarnation.bytes.fill(3);
  EXPECT_TRUE(absl::IsDataLoss(DecodeSuperblock(FileOf(SomeSuperblock(5), other)).status()));
}

TEST(SuperblockTest, AGeometryThatDiffersIsNamedWithBothValues) {
  const Superblock superblock = SomeSuperblock();
  DiskGeometry configured = superblock.geometry;
  EXPECT_EQ(CheckGeometry(superblock, configured), absl::OkStatus());
  configured.segment_count = 65;
  absl::Status refused = CheckGeometry(superblock, configured);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("segment_count"), HasSubstr("64"), HasSubstr("65")));
  configured.segment_bytes = 4096;
  refused = CheckGeometry(superblock, configured);
  EXPECT_TRUE(absl::IsFailedPrecondition(refused));
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("segment_bytes"), HasSubstr("268435456"), HasSubstr("4096")));
}

// Makes changes with power cuts in the middle, while one copy at a time rots: a read gives the last
// change that was finished, or the one that was not.
TEST(SuperblockModelTest, ChangesSurvivePowerCutsAndRot) {
  testing::SimRandom random(testing::TestSeed());
  File file = EncodeSuperblockFile(SomeSuperblock(1));
  uint64_t finished = 1;
  for (int round = 0; round < 2000; ++round) {
    const auto decoded = DecodeSuperblock(file);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const uint64_t sequence = decoded->superblock->sequence;
    ASSERT_GE(sequence, finished);
    ASSERT_LE(sequence, finished + 1);
    const SuperblockCopy first = decoded->write_first;
    const SuperblockCopy second =
        first == SuperblockCopy::kA ? SuperblockCopy::kB : SuperblockCopy::kA;
    if (decoded->copies_differ) {  // Completes the change, as the contract says.
      EncodeSuperblock(*decoded->superblock, PageOf(&file, first));
    }
    finished = sequence;
    File changed = EncodeSuperblockFile(SomeSuperblock(sequence + 1));
    const uint64_t cut = random.Below(2 * kSuperblockBytes / kSectorBytes + 1) * kSectorBytes;
    const uint64_t in_first = std::min<uint64_t>(cut, kSuperblockBytes);
    std::copy_n(changed.begin(), in_first, PageOf(&file, first).begin());
    std::copy_n(changed.begin(), cut - in_first, PageOf(&file, second).begin());
    if (cut == 2 * kSuperblockBytes) {
      finished = sequence + 1;
      const uint64_t bit = random.Below(kSuperblockFileBytes * 8);
      file[bit / 8] ^= std::byte{1} << (bit % 8);
    }
  }
}

}  // namespace
}  // namespace kvtier
